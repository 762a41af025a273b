//! Taskstats over generic netlink: one request and one answer per thread.
//!
//! Constants are from `include/uapi/linux/taskstats.h`, behaviour from `kernel/taskstats.c`.

use std::io::{self, Cursor, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use neli::consts::nl::NlmF;
use neli::consts::socket::{Msg, NlFamily};
use neli::genl::{AttrTypeBuilder, Genlmsghdr, GenlmsghdrBuilder, NlattrBuilder};
use neli::nl::{NlPayload, Nlmsghdr, NlmsghdrBuilder};
use neli::socket::NlSocket;
use neli::types::{Buffer, GenlBuffer};
use neli::utils::Groups;
use neli::{Size, ToBytes};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{MsgFlags, MultiHeaders, NetlinkAddr, recvmmsg, setsockopt, sockopt};
use nix::sys::time::TimeVal;

const FAMILY: &[u8] = b"TASKSTATS\0";
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const TASKSTATS_CMD_GET: u8 = 1;
const TASKSTATS_CMD_ATTR_PID: u16 = 1;
const TASKSTATS_TYPE_PID: u16 = 1;
const TASKSTATS_TYPE_STATS: u16 = 3;
const TASKSTATS_TYPE_AGGR_PID: u16 = 4;

/// An answer that takes longer counts as lost.
const TIMEOUT: Duration = Duration::from_millis(250);
/// Maximum number of requests per thread, if answers are lost.
const TRIES: u32 = 3;
/// Threads per message: the kernel answers the requests in it one by one. The answers fit the socket's
/// buffer of 208 KiB, where each takes less than 4 KiB.
pub(crate) const AT_ONCE: usize = 32;
/// Larger than any answer: the struct is below 1 KiB.
const ROOM: usize = 4096;

type Message = Nlmsghdr<u16, Genlmsghdr<u8, u16>>;

/// A socket for requests about threads.
pub(crate) struct Taskstats {
    socket: NlSocket,
    family: u16,
    /// Number of the last request.
    sequence: u32,
    requests: Vec<u8>,
    room: Vec<u8>,
}

impl Taskstats {
    /// Opens the socket and finds the family.
    ///
    /// # Errors
    /// `ENOENT` if the kernel has no taskstats; errors of socket calls.
    pub(crate) fn open() -> Result<Self, Errno> {
        let socket = NlSocket::connect(NlFamily::Generic, None, Groups::empty()).map_err(|error| errno(&error))?;
        // SAFETY: the descriptor is the socket's, which outlives the borrow.
        let fd = unsafe { BorrowedFd::borrow_raw(socket.as_raw_fd()) };
        let timeout = TimeVal::new(0, TIMEOUT.subsec_micros().into());
        setsockopt(&fd, sockopt::ReceiveTimeout, &timeout)?;
        let mut taskstats =
            Self { socket, family: 0, sequence: 0, requests: Vec::new(), room: vec![0; AT_ONCE * ROOM] };
        taskstats.family = taskstats.find_family()?;
        Ok(taskstats)
    }

    fn find_family(&mut self) -> Result<u16, Errno> {
        let controller = u16::try_from(libc::GENL_ID_CTRL).expect("the controller's id is 16");
        let request_bytes = request(controller, CTRL_CMD_GETFAMILY, self.sequence, CTRL_ATTR_FAMILY_NAME, FAMILY);
        self.socket.send(&request_bytes.ok_or(Errno::EBADMSG)?, Msg::empty()).map_err(|error| errno(&error))?;
        let mut family = Err(Errno::EBADMSG);
        self.answers(|_, answer| {
            let id = |answer| Some(u16::from_ne_bytes(attribute(answer, CTRL_ATTR_FAMILY_ID)?.try_into().ok()?));
            family = answer.and_then(|answer| id(answer).ok_or(Errno::EBADMSG));
        })?;
        family
    }

    /// Queries at most [`AT_ONCE`] threads. Calls `found` for each with its index in `tids` and the kernel's
    /// `struct taskstats` as bytes, or the error: `EPERM` without `CAP_NET_ADMIN` or outside the initial
    /// network namespace, `ESRCH` for a thread that has exited, `EAGAIN` without an answer, `EBADMSG` for an
    /// invalid one.
    pub(crate) fn ask(&mut self, tids: &[u32], mut found: impl FnMut(usize, Result<&[u8], Errno>)) {
        let mut open: Vec<usize> = (0..tids.len()).collect();
        let mut last = Errno::EAGAIN;
        for _ in 0..TRIES {
            match self.round(tids, &mut open, &mut found) {
                Ok(()) => return,
                Err(errno) => last = errno,
            }
        }
        open.into_iter().for_each(|place| found(place, Err(last)));
    }

    /// Queries the threads with an index in `open`, all in one message, and removes those with an answer.
    fn round(
        &mut self,
        tids: &[u32],
        open: &mut Vec<usize>,
        found: &mut impl FnMut(usize, Result<&[u8], Errno>),
    ) -> Result<(), Errno> {
        let places = open.clone();
        let first = self.sequence.wrapping_add(1);
        self.requests.clear();
        for (sequence, &place) in (first..).zip(&places) {
            let tid = tids[place].to_ne_bytes();
            let request_bytes = request(self.family, TASKSTATS_CMD_GET, sequence, TASKSTATS_CMD_ATTR_PID, &tid);
            self.requests.extend(request_bytes.ok_or(Errno::EBADMSG)?);
            self.sequence = sequence;
        }
        self.socket.send(&self.requests, Msg::empty()).map_err(|error| errno(&error))?;
        while !open.is_empty() {
            self.answers(|sequence, answer| {
                // Late answers to an earlier round are ignored.
                let index = usize::try_from(sequence.wrapping_sub(first));
                let Some(&place) = index.ok().and_then(|index| places.get(index)) else { return };
                open.retain(|&waiting| waiting != place);
                found(place, answer.and_then(|answer| stats(answer, tids[place]).ok_or(Errno::EBADMSG)));
            })?;
        }
        Ok(())
    }

    /// Receives the answers that have arrived, or waits for one.
    fn answers(&mut self, mut each: impl FnMut(u32, Result<&[u8], Errno>)) -> Result<(), Errno> {
        let mut headers = MultiHeaders::<NetlinkAddr>::preallocate(AT_ONCE, None);
        let mut rooms: Vec<_> = self.room.chunks_exact_mut(ROOM).map(|room| [IoSliceMut::new(room)]).collect();
        let received = recvmmsg(self.socket.as_raw_fd(), &mut headers, &mut rooms, MsgFlags::MSG_WAITFORONE, None)?;
        for bytes in received.filter_map(|message| message.iovs().next()) {
            if let Some((sequence, answer)) = parse(bytes) {
                each(sequence, answer);
            }
        }
        Ok(())
    }
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// A request with one attribute, as bytes.
fn request(family: u16, command: u8, sequence: u32, attribute: u16, value: &[u8]) -> Option<Vec<u8>> {
    let kind = AttrTypeBuilder::default().nla_type(attribute).build().ok()?;
    let attribute = NlattrBuilder::default().nla_type(kind).nla_payload(Buffer::from(value)).build().ok()?;
    let attributes: GenlBuffer<u16, Buffer> = [attribute].into_iter().collect();
    let payload = GenlmsghdrBuilder::default().cmd(command).version(1).attrs(attributes).build().ok()?;
    let message: Message = NlmsghdrBuilder::default()
        .nl_type(family)
        .nl_flags(NlmF::REQUEST)
        .nl_seq(sequence)
        .nl_payload(NlPayload::Payload(payload))
        .build()
        .ok()?;
    let mut bytes = Cursor::new(vec![0; message.padded_size()]);
    message.to_bytes(&mut bytes).ok()?;
    Some(bytes.into_inner())
}

/// The number of the request that a message answers, and its attributes or its error; `None` if it is
/// not a message. Parsed here because neli 0.7 panics at messages of impossible lengths.
fn parse(bytes: &[u8]) -> Option<(u32, Result<&[u8], Errno>)> {
    const HEADERS: usize = 16 + 4;
    let number = |at: usize| Some(i32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let length = usize::try_from(number(0)?).ok()?;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let answer = match i32::from(kind) {
        libc::NLMSG_ERROR => Err(Errno::from_raw(number(16)?.saturating_neg())),
        _ => bytes.get(HEADERS..length).ok_or(Errno::EBADMSG),
    };
    Some((number(8)?.cast_unsigned(), answer))
}

/// The payload of the first attribute of that type (`struct nlattr`: length, type, payload, padding).
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    // The upper two bits of a type are flags.
    const TYPE: u16 = 0x3fff;
    loop {
        let number = |at: usize| Some(u16::from_ne_bytes(attributes.get(at..at + 2)?.try_into().ok()?));
        let (length, kind) = (usize::from(number(0)?), number(2)?);
        let payload = attributes.get(4..length)?;
        if kind & TYPE == wanted {
            return Some(payload);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// The struct in an answer, if the answer is about thread `tid`.
fn stats(answer: &[u8], tid: u32) -> Option<&[u8]> {
    let about = attribute(answer, TASKSTATS_TYPE_AGGR_PID)?;
    (attribute(about, TASKSTATS_TYPE_PID)? == tid.to_ne_bytes()).then_some(())?;
    attribute(about, TASKSTATS_TYPE_STATS)
}

/// Parses any bytes as a message.
#[cfg(fuzzing)]
pub(crate) fn fuzz(bytes: &[u8]) {
    if let Some((_, Ok(answer))) = parse(bytes) {
        let _ = stats(answer, 7);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One attribute as the kernel writes it: length, type, payload, padding.
    fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + payload.len()).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(16 + body.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend([kind.to_ne_bytes(), 0u16.to_ne_bytes()].concat());
        bytes.extend([sequence.to_ne_bytes(), 4711u32.to_ne_bytes()].concat());
        bytes.extend(body);
        bytes
    }

    fn reply(tid: u32, stats: &[u8]) -> Vec<u8> {
        let about = [attribute(1, &tid.to_ne_bytes()), attribute(3, stats)].concat();
        let body = [vec![2, 1, 0, 0], attribute(4, &about)].concat();
        message(30, 9, &body)
    }

    #[test]
    fn a_request_has_the_bytes_that_the_kernel_expects() {
        let bytes = request(30, 1, 9, 1, &7u32.to_ne_bytes()).unwrap();
        let body = [vec![1, 1, 0, 0], attribute(1, &7u32.to_ne_bytes())].concat();
        let mut expected = message(30, 9, &body);
        expected[6..8].copy_from_slice(&1u16.to_ne_bytes()); // NLM_F_REQUEST
        expected[12..16].fill(0);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn the_struct_in_a_reply_is_found_whole() {
        for length in [328, 344, 352, 368, 400, 416, 432, 560, 688, 1000] {
            let sent: Vec<u8> = (0..=250).cycle().take(length).collect();
            let reply = reply(7, &sent);
            let (sequence, answer) = parse(&reply).unwrap();
            let answer = answer.unwrap();
            assert_eq!(sequence, 9);
            assert_eq!(stats(answer, 7), Some(&sent[..]));
            assert_eq!(stats(answer, 8), None, "about another thread");
        }
    }

    #[test]
    fn errors_are_their_errno() {
        let asked = request(30, 1, 9, 1, &7u32.to_ne_bytes()).unwrap();
        let error = |errno: i32| message(2, 9, &[&errno.to_ne_bytes()[..], &asked].concat());
        assert_eq!(parse(&error(-1)), Some((9, Err(Errno::EPERM))));
        assert_eq!(parse(&error(-3)), Some((9, Err(Errno::ESRCH))));
    }

    #[test]
    fn messages_of_impossible_lengths_are_no_panic() {
        let mut short = reply(7, &[0; 328]);
        short[..4].copy_from_slice(&9u32.to_ne_bytes());
        assert_eq!(parse(&short), Some((9, Err(Errno::EBADMSG))));
        assert_eq!(
            parse(&message(2, 9, &[&(-1i32).to_ne_bytes()[..], &[0; 28]].concat())),
            Some((9, Err(Errno::EPERM)))
        );
        assert_eq!(parse(&message(2, 9, &[0; 3])), None);
    }

    #[test]
    fn a_damaged_reply_is_an_error_and_never_a_panic() {
        let whole = reply(7, &[1; 328]);
        for end in 0..whole.len() {
            let answer = parse(&whole[..end]);
            assert!(!matches!(answer, Some((_, Ok(answer))) if stats(answer, 7).is_some()), "{end}");
        }
        for at in 0..60 {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            if let Some((_, Ok(answer))) = parse(&bytes) {
                let _ = stats(answer, 7);
            }
        }
    }

    #[test]
    fn the_kernel_answers_or_gives_an_error() {
        let mut taskstats = match Taskstats::open() {
            Ok(taskstats) => taskstats,
            Err(errno) => return eprintln!("skipped: no taskstats here: {errno}"),
        };
        // Each answer is its own thread's, whatever the others' are.
        let tids: Vec<u32> = [std::process::id(), u32::MAX >> 1].into_iter().cycle().take(AT_ONCE).collect();
        let mut answers = vec![Err(Errno::EAGAIN); tids.len()];
        taskstats.ask(&tids, |place, stats| answers[place] = stats.map(<[u8]>::len));
        let gone = if answers[0].is_ok_and(|length| length >= 328) { Errno::ESRCH } else { Errno::EPERM };
        for (place, answer) in answers.iter().enumerate() {
            assert_eq!(*answer, if place % 2 == 0 { answers[0] } else { Err(gone) }, "{place}");
        }
    }
}

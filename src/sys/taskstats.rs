//! Taskstats over generic netlink: one question, one answer, about one thread.
//!
//! `include/uapi/linux/taskstats.h` has the numbers, `kernel/taskstats.c` the behaviour.

use std::io::{self, Cursor};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use neli::attr::Attribute;
use neli::consts::nl::NlmF;
use neli::consts::socket::{Msg, NlFamily};
use neli::genl::{AttrTypeBuilder, Genlmsghdr, GenlmsghdrBuilder, NlattrBuilder};
use neli::nl::{NlPayload, Nlmsghdr, NlmsghdrBuilder};
use neli::socket::NlSocket;
use neli::types::{Buffer, GenlBuffer};
use neli::utils::Groups;
use neli::{FromBytes, Size, ToBytes};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
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

/// An answer that takes longer is lost.
const PATIENCE: Duration = Duration::from_millis(250);
/// How often a lost answer is asked for again, and how many stale ones are passed over.
const TRIES: u32 = 3;
/// More than any answer: the struct is below 1 KiB.
const BUFFER: usize = 8192;

type Message = Nlmsghdr<u16, Genlmsghdr<u8, u16>>;

/// A socket that answers questions about threads.
pub(crate) struct Taskstats {
    socket: NlSocket,
    family: u16,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Taskstats {
    /// Opens the socket and finds the family.
    ///
    /// # Errors
    /// `ENOENT` where the kernel has no taskstats; what socket calls answer.
    pub(crate) fn open() -> Result<Self, Errno> {
        let socket = NlSocket::connect(NlFamily::Generic, None, Groups::empty()).map_err(|error| errno(&error))?;
        // SAFETY: the descriptor is the socket's, which lives on past the borrow.
        let fd = unsafe { BorrowedFd::borrow_raw(socket.as_raw_fd()) };
        let patience = TimeVal::new(0, PATIENCE.subsec_micros().into());
        setsockopt(&fd, sockopt::ReceiveTimeout, &patience)?;
        let mut taskstats = Self { socket, family: 0, sequence: 0, buffer: vec![0; BUFFER] };
        let controller = u16::try_from(libc::GENL_ID_CTRL).expect("the controller's id is 16");
        let answer = taskstats.ask(controller, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, FAMILY)?;
        let attributes = answer.attrs().get_attr_handle();
        taskstats.family = attributes.get_attr_payload_as(CTRL_ATTR_FAMILY_ID).map_err(|_| Errno::EBADMSG)?;
        Ok(taskstats)
    }

    /// The kernel's `struct taskstats` of thread `tid`, as bytes.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_ADMIN` in the initial network namespace, `ESRCH` for a thread that
    /// has ended, `EAGAIN` where no answer came, `EBADMSG` where it made no sense.
    pub(crate) fn of(&mut self, tid: u32) -> Result<Vec<u8>, Errno> {
        let answer = self.ask(self.family, TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_PID, &tid.to_ne_bytes())?;
        stats(&answer, tid).ok_or(Errno::EBADMSG)
    }

    fn ask(&mut self, family: u16, command: u8, attribute: u16, value: &[u8]) -> Result<Genlmsghdr<u8, u16>, Errno> {
        let mut last = Errno::EAGAIN;
        for _ in 0..TRIES {
            self.sequence = self.sequence.wrapping_add(1);
            let request = request(family, command, self.sequence, attribute, value).ok_or(Errno::EBADMSG)?;
            self.socket.send(&request, Msg::empty()).map_err(|error| errno(&error))?;
            match self.answer() {
                Err(errno @ (Errno::EAGAIN | Errno::EINTR | Errno::ENOBUFS)) => last = errno,
                result => return result,
            }
        }
        Err(last)
    }

    /// The answer to the last question; answers to earlier ones, that came late, are passed over.
    fn answer(&mut self) -> Result<Genlmsghdr<u8, u16>, Errno> {
        for _ in 0..TRIES {
            let (length, _) = self.socket.recv(&mut self.buffer, Msg::empty()).map_err(|error| errno(&error))?;
            if let Some(answer) = parse(&self.buffer[..length], self.sequence) {
                return answer;
            }
        }
        Err(Errno::EAGAIN)
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

/// What a message says in answer to question `sequence`; `None` if it answers another.
fn parse(bytes: &[u8], sequence: u32) -> Option<Result<Genlmsghdr<u8, u16>, Errno>> {
    let Ok(message) = Message::from_bytes(&mut Cursor::new(bytes)) else { return Some(Err(Errno::EBADMSG)) };
    if *message.nl_seq() != sequence {
        return None;
    }
    Some(match message.nl_payload() {
        NlPayload::Payload(answer) => Ok(answer.clone()),
        NlPayload::Err(refusal) => Err(Errno::from_raw(refusal.error().saturating_neg())),
        _ => Err(Errno::EBADMSG),
    })
}

/// The struct in an answer, if the answer is about thread `tid`.
fn stats(answer: &Genlmsghdr<u8, u16>, tid: u32) -> Option<Vec<u8>> {
    let attributes = answer.attrs().get_attr_handle();
    let about = attributes.get_nested_attributes::<u16>(TASKSTATS_TYPE_AGGR_PID).ok()?;
    let who: u32 = about.get_attr_payload_as(TASKSTATS_TYPE_PID).ok()?;
    let stats = about.get_attribute(TASKSTATS_TYPE_STATS)?;
    (who == tid).then(|| stats.payload().as_ref().to_vec())
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
    fn a_question_has_the_bytes_that_the_kernel_expects() {
        let bytes = request(30, 1, 9, 1, &7u32.to_ne_bytes()).unwrap();
        let body = [vec![1, 1, 0, 0], attribute(1, &7u32.to_ne_bytes())].concat();
        let mut expected = message(30, 9, &body);
        expected[6..8].copy_from_slice(&1u16.to_ne_bytes()); // NLM_F_REQUEST
        expected[12..16].fill(0);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn the_struct_comes_out_of_a_reply_whole() {
        for length in [328, 344, 352, 368, 400, 416, 432, 560, 688, 1000] {
            let sent: Vec<u8> = (0..=250).cycle().take(length).collect();
            let answer = parse(&reply(7, &sent), 9).unwrap().unwrap();
            assert_eq!(stats(&answer, 7), Some(sent));
            assert_eq!(stats(&answer, 8), None, "about another thread");
        }
    }

    #[test]
    fn refusals_are_their_errno_and_late_answers_are_passed_over() {
        let asked = request(30, 1, 9, 1, &7u32.to_ne_bytes()).unwrap();
        let refusal = |errno: i32| message(2, 9, &[&errno.to_ne_bytes()[..], &asked].concat());
        assert_eq!(parse(&refusal(-1), 9), Some(Err(Errno::EPERM)));
        assert_eq!(parse(&refusal(-3), 9), Some(Err(Errno::ESRCH)));
        assert_eq!(parse(&reply(7, &[0; 328]), 10), None);
    }

    #[test]
    fn a_damaged_reply_is_an_error_and_never_a_panic() {
        let whole = reply(7, &[1; 328]);
        for end in 0..whole.len() {
            let answer = parse(&whole[..end], 9);
            assert!(!matches!(answer, Some(Ok(ref answer)) if stats(answer, 7).is_some()), "{end}");
        }
        for at in 0..60 {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            if let Some(Ok(answer)) = parse(&bytes, 9) {
                let _ = stats(&answer, 7);
            }
        }
    }

    #[test]
    fn the_kernel_answers_or_says_why_not() {
        let mut taskstats = match Taskstats::open() {
            Ok(taskstats) => taskstats,
            Err(errno) => return eprintln!("skipped: no taskstats here: {errno}"),
        };
        let gone = match taskstats.of(std::process::id()) {
            Ok(stats) => {
                assert!(stats.len() >= 328);
                Errno::ESRCH
            }
            Err(errno) => errno,
        };
        assert!(matches!(gone, Errno::ESRCH | Errno::EPERM), "{gone}");
        assert_eq!(taskstats.of(u32::MAX >> 1), Err(gone));
    }
}

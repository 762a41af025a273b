//! Taskstats over generic netlink: one request and one answer per thread.
//!
//! Constants are from `include/uapi/linux/taskstats.h`, behavior from `kernel/taskstats.c`.

mod message;

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use neli::consts::socket::{Msg, NlFamily};
use neli::socket::NlSocket;
use neli::utils::Groups;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{MsgFlags, MultiHeaders, NetlinkAddr, recvmmsg, setsockopt, sockopt};
use nix::sys::time::TimeVal;

use super::errno;

use self::message::{attribute, parse, request, stats};

const FAMILY: &[u8] = b"TASKSTATS\0";
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const TASKSTATS_CMD_GET: u8 = 1;
const TASKSTATS_CMD_ATTR_PID: u16 = 1;

/// An answer that takes longer counts as lost.
const TIMEOUT: Duration = Duration::from_millis(250);
/// Maximum number of requests per thread, if answers are lost.
const TRIES: u32 = 3;
/// Threads per message: the kernel answers the requests in it one by one. The answers fit the socket's
/// buffer of 208 KiB, where each takes less than 4 KiB.
pub(crate) const REQUESTS_PER_MESSAGE: usize = 32;
/// Larger than any answer: the struct is below 1 KiB.
const ANSWER_BYTES: usize = 4096;

pub(crate) struct Taskstats {
    socket: NlSocket,
    family: u16,
    sequence: u32,
    requests: Vec<u8>,
    buffers: Vec<u8>,
}

impl Taskstats {
    /// Opens the socket and finds the family. `ENOENT` if the kernel has no taskstats.
    pub(crate) fn open() -> Result<Self, Errno> {
        let socket = NlSocket::connect(NlFamily::Generic, None, Groups::empty()).map_err(|error| errno(&error))?;
        // SAFETY: the descriptor is the socket's, which outlives the borrow.
        let fd = unsafe { BorrowedFd::borrow_raw(socket.as_raw_fd()) };
        let timeout = TimeVal::new(0, TIMEOUT.subsec_micros().into());
        setsockopt(&fd, sockopt::ReceiveTimeout, &timeout)?;
        let mut taskstats = Self {
            socket,
            family: 0,
            sequence: 0,
            requests: Vec::new(),
            buffers: vec![0; REQUESTS_PER_MESSAGE * ANSWER_BYTES],
        };
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

    /// Queries at most [`REQUESTS_PER_MESSAGE`] threads. Calls `found` for each with its index in `tids` and the kernel's
    /// `struct taskstats` as bytes, or the error: `EPERM` without `CAP_NET_ADMIN` or outside the initial
    /// user namespace, `ESRCH` for a thread that has exited, `EAGAIN` without an answer, `EBADMSG` for an
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

    /// Queries the threads whose index is in `open`, in one message, and removes the answered ones from `open`.
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
        let mut headers = MultiHeaders::<NetlinkAddr>::preallocate(REQUESTS_PER_MESSAGE, None);
        let mut buffers: Vec<_> =
            self.buffers.chunks_exact_mut(ANSWER_BYTES).map(|buffer| [IoSliceMut::new(buffer)]).collect();
        let received = recvmmsg(self.socket.as_raw_fd(), &mut headers, &mut buffers, MsgFlags::MSG_WAITFORONE, None)?;
        for bytes in received.filter_map(|message| message.iovs().next()) {
            if let Some((sequence, answer)) = parse(bytes) {
                each(sequence, answer);
            }
        }
        Ok(())
    }
}

/// Parses any bytes as a message.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    if let Some((_, Ok(answer))) = parse(bytes) {
        let _ = stats(answer, 7);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::{Missing, skipped};

    #[test]
    fn the_kernel_answers_or_gives_an_error() {
        let mut taskstats = match Taskstats::open() {
            Ok(taskstats) => taskstats,
            Err(errno) => return skipped(Missing::Privilege(format!("taskstats: {errno}"))),
        };
        // Each answer is its own thread's, whatever the others' are.
        let tids: Vec<u32> =
            [std::process::id(), u32::MAX >> 1].into_iter().cycle().take(REQUESTS_PER_MESSAGE).collect();
        let mut answers = vec![Err(Errno::EAGAIN); tids.len()];
        taskstats.ask(&tids, |place, stats| answers[place] = stats.map(<[u8]>::len));
        let of_missing_thread = if answers[0].is_ok_and(|length| length >= 328) { Errno::ESRCH } else { Errno::EPERM };
        for (place, answer) in answers.iter().enumerate() {
            assert_eq!(*answer, if place % 2 == 0 { answers[0] } else { Err(of_missing_thread) }, "{place}");
        }
    }
}

//! Records of exited threads. The kernel sends each to the sockets that are registered for the CPU of the
//! exit (`taskstats_exit` of `kernel/taskstats.c`).

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::thread::sleep;
use std::time::Duration;

use neli::consts::socket::{Msg, NlFamily};
use neli::socket::NlSocket;
use neli::utils::Groups;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, MultiHeaders, NetlinkAddr, recv, recvmmsg, setsockopt, sockopt};

use super::super::errno;
use super::super::priority::raise_priority_of_this_thread;
use super::message::{error, exited, request};
use super::{ROOM, TASKSTATS_CMD_GET, Taskstats};

const TASKSTATS_CMD_ATTR_REGISTER_CPUMASK: u16 = 3;
const TASKSTATS_CMD_ATTR_DEREGISTER_CPUMASK: u16 = 4;

/// CPUs per socket, unless that makes too many sockets.
const CPUS_PER_SOCKET: usize = 4;
const MAX_SOCKETS: usize = 64;
/// Buffer of a socket: room for 15,000 records or more. The kernel allocates what is queued.
const BUFFER_BYTES: usize = 32 << 20;
/// Messages per system call.
const BATCH: usize = 64;
/// System calls per socket before others have their turn: together, more messages than a buffer has room for.
const MAX_BATCHES: usize = 1024;
/// Records are left in the buffers for this long, so that one wake-up of the listener receives many.
const PAUSE: Duration = Duration::from_millis(5);

/// Sockets that receive the records of all CPUs.
pub(crate) struct ExitSockets {
    family: u16,
    sockets: Vec<ExitSocket>,
}

struct ExitSocket {
    socket: NlSocket,
    /// Its CPUs as the kernel parses them, with a final zero.
    cpus: Vec<u8>,
}

/// Why the listener continues.
enum Woken {
    /// There may be records.
    Records,
    /// It is to stop.
    Stopped,
}

impl AsFd for ExitSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is the socket's, which outlives the borrow.
        unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) }
    }
}

impl ExitSockets {
    /// Opens sockets and registers them for `cpus`.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_ADMIN`, `EINVAL` outside the initial PID and user namespaces, `ENOENT` if
    /// the kernel has no taskstats or hides it in this network namespace; errors of socket calls.
    pub(crate) fn open(cpus: &[u32]) -> Result<Self, Errno> {
        let family = Taskstats::open()?.family;
        let per_socket = cpus.len().div_ceil(MAX_SOCKETS).max(CPUS_PER_SOCKET);
        let sockets = cpus.chunks(per_socket).map(|cpus| ExitSocket::open(family, cpus)).collect::<Result<_, _>>()?;
        Ok(Self { family, sockets })
    }

    /// Whether a record is queued. Newer kernels let sockets of any network namespace register, and then send
    /// records to those of the initial one only.
    pub(crate) fn has_record(&self) -> bool {
        let mut waiting: Vec<_> = self.sockets.iter().map(readable).collect();
        poll(&mut waiting, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }

    /// Passes the `struct taskstats` of each exited thread to `each` until the other end of `stop` is
    /// closed, and then those that are queued. Returns the number of records that were lost because a
    /// buffer was full.
    pub(crate) fn listen(self, stop: BorrowedFd<'_>, mut each: impl FnMut(&[u8])) -> u64 {
        raise_priority_of_this_thread();
        let mut room = vec![0; BATCH * ROOM];
        while let Woken::Records = self.wait(stop) {
            sleep(PAUSE);
            self.receive(&mut room, &mut each);
        }
        for socket in &self.sockets {
            // If the kernel refuses, the buffers are emptied once all the same.
            let _ = socket.send(self.family, TASKSTATS_CMD_ATTR_DEREGISTER_CPUMASK);
        }
        self.receive(&mut room, &mut each);
        self.sockets.iter().filter_map(|socket| socket.lost().ok()).sum()
    }

    fn wait(&self, stop: BorrowedFd<'_>) -> Woken {
        let mut waiting: Vec<_> = [readable(&stop)].into_iter().chain(self.sockets.iter().map(readable)).collect();
        match poll(&mut waiting, PollTimeout::NONE) {
            Ok(_) if waiting[0].any() == Some(false) => Woken::Records,
            Err(Errno::EINTR) => Woken::Records,
            _ => Woken::Stopped,
        }
    }

    /// Receives all that is queued.
    fn receive(&self, room: &mut [u8], each: &mut impl FnMut(&[u8])) {
        for socket in &self.sockets {
            let _ = (0..MAX_BATCHES).all(|_| socket.receive(self.family, room, each) == BATCH);
        }
    }
}

/// Polls until `file` can be read or its other end is closed.
fn readable(file: &impl AsFd) -> PollFd<'_> {
    PollFd::new(file.as_fd(), PollFlags::POLLIN)
}

impl ExitSocket {
    fn open(family: u16, cpus: &[u32]) -> Result<Self, Errno> {
        let socket = NlSocket::connect(NlFamily::Generic, None, Groups::empty()).map_err(|error| errno(&error))?;
        let mut list = cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",").into_bytes();
        list.push(0);
        let socket = Self { socket, cpus: list };
        setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_BYTES)
            .or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &BUFFER_BYTES))?;
        socket.keep_on_overrun()?;
        // A kernel that does not count losses is not asked for records.
        socket.lost()?;
        socket.register(family)?;
        Ok(socket)
    }

    fn send(&self, family: u16, attribute: u16) -> Result<(), Errno> {
        let bytes = request(family, TASKSTATS_CMD_GET, 0, attribute, &self.cpus).ok_or(Errno::EBADMSG)?;
        self.socket.send(&bytes, Msg::empty()).map(drop).map_err(|error| errno(&error))
    }

    /// Registers for the CPUs. The kernel does it within the system call: an error is queued before that
    /// returns, and before any record.
    fn register(&self, family: u16) -> Result<(), Errno> {
        self.send(family, TASKSTATS_CMD_ATTR_REGISTER_CPUMASK)?;
        let mut start = [0; 20];
        match recv(self.socket.as_raw_fd(), &mut start, MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT) {
            Ok(length) => error(&start[..length]).map_or(Ok(()), Err),
            Err(Errno::EAGAIN) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Receives at most [`BATCH`] messages, all at once; the number of messages.
    fn receive(&self, family: u16, room: &mut [u8], each: &mut impl FnMut(&[u8])) -> usize {
        let mut headers = MultiHeaders::<NetlinkAddr>::preallocate(BATCH, None);
        let mut rooms: Vec<_> = room.chunks_exact_mut(ROOM).map(|room| [IoSliceMut::new(room)]).collect();
        let fd = self.socket.as_raw_fd();
        let Ok(received) = recvmmsg(fd, &mut headers, &mut rooms, MsgFlags::MSG_DONTWAIT, None) else { return 0 };
        let mut messages = 0;
        for bytes in received.filter_map(|message| message.iovs().next()) {
            messages += 1;
            if let Some(stats) = exited(bytes, family) {
                each(stats);
            }
        }
        messages
    }

    /// Lets the kernel drop single records while the buffer is full. Otherwise it drops all from then on
    /// until the buffer is empty (`netlink_overrun` of `net/netlink/af_netlink.c`).
    fn keep_on_overrun(&self) -> Result<(), Errno> {
        let (on, size) = (1i32, libc::socklen_t::try_from(size_of::<i32>()).expect("4"));
        // SAFETY: the kernel reads an i32 of that size, which lives until the call returns.
        let done = unsafe {
            let value = (&raw const on).cast();
            libc::setsockopt(self.socket.as_raw_fd(), libc::SOL_NETLINK, libc::NETLINK_NO_ENOBUFS, value, size)
        };
        Errno::result(done).map(drop)
    }

    /// Number of messages that the kernel dropped because the buffer was full (`sk_drops`).
    fn lost(&self) -> Result<u64, Errno> {
        let mut info = [0u32; MEMINFO_WORDS];
        let mut size = libc::socklen_t::try_from(size_of_val(&info)).expect("a few bytes");
        // SAFETY: the kernel writes at most `size` bytes, which is the size of the array, and any bit
        // pattern is a valid u32.
        let done = unsafe {
            let value = info.as_mut_ptr().cast();
            libc::getsockopt(self.socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, value, &raw mut size)
        };
        Errno::result(done).map(|_| info[MEMINFO_DROPS].into())
    }
}

/// `SK_MEMINFO_VARS` and `SK_MEMINFO_DROPS` of `include/uapi/linux/sock_diag.h`.
const MEMINFO_WORDS: usize = 9;
const MEMINFO_DROPS: usize = 8;

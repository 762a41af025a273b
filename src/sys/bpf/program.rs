//! Programs: loading, and attaching to tracepoints.

use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};

use nix::errno::Errno;

use super::command::{self, PROG_LOAD, PROG_TEST_RUN, RAW_TRACEPOINT_OPEN, address, number};

/// Program type `BPF_PROG_TYPE_RAW_TRACEPOINT` of `enum bpf_prog_type`.
const RAW_TRACEPOINT: u32 = 17;
/// Program type `BPF_PROG_TYPE_TRACING` of `enum bpf_prog_type`.
const TRACING: u32 = 26;
/// Program type `BPF_PROG_TYPE_SYSCALL` of `enum bpf_prog_type`.
const SYSCALL: u32 = 31;
/// `BPF_F_SLEEPABLE`, which programs of the type `SYSCALL` must have.
const SLEEPABLE: u32 = 1 << 4;
/// The kernel lets programs with this license call functions that need a license compatible with the GPL.
const LICENSE: &CStr = c"Dual MIT/GPL";
/// Log of the instructions on the path to a fault, without the states in between.
const LOG_LEVEL: u32 = 1;

/// When the kernel runs a program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attach {
    /// Whenever [`run`] is called (Linux 5.10). It is attached to nothing.
    Nowhere,
    /// The same for a program that may call more functions of the kernel (Linux 5.14).
    SystemCall,
    /// At a tracepoint, with its arguments as BTF pointers (`tp_btf`).
    Tracepoint,
    /// Runs for each thread, or each element of a map, that an iterator visits.
    Iterator,
}

impl Attach {
    /// The type of the program, and its flags.
    fn kind(self) -> (u32, u32) {
        match self {
            Self::Nowhere => (RAW_TRACEPOINT, 0),
            Self::SystemCall => (SYSCALL, SLEEPABLE),
            Self::Tracepoint | Self::Iterator => (TRACING, 0),
        }
    }

    /// The number in the kernel's `enum bpf_attach_type`.
    pub(super) fn number(self) -> u32 {
        match self {
            Self::Nowhere | Self::SystemCall => 0,
            Self::Tracepoint => 23,
            Self::Iterator => 28,
        }
    }
}

/// A program but for its code.
#[derive(Clone, Copy)]
pub(crate) struct ProgramSpec<'a> {
    /// Shown by bpftool: at most 15 letters, digits, `_` and `.`.
    pub(crate) name: &'a str,
    pub(crate) attach: Attach,
    /// Id in the kernel's BTF of the function or type that the program attaches to: the function `bpf_iter_task`, or the typedef
    /// `btf_trace_NAME` of a tracepoint. 0 if it attaches to nothing.
    pub(crate) btf_id: u32,
}

/// The fields for `BPF_PROG_LOAD`.
#[derive(Default)]
#[repr(C)]
struct LoadAttributes {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
    debug_information: [u32; 9],
    attach_btf_id: u32,
}

/// Loads a program. The verifier writes a text with a terminating NUL into `log`; kernels before 6.4 keep its
/// start if it does not fit, later ones its end. The kernel is much faster without a log.
pub(crate) fn load(spec: &ProgramSpec<'_>, code: &[u64], log: Option<&mut [u8]>) -> Result<OwnedFd, Errno> {
    let mut name = [0; 16];
    let length = spec.name.len().min(name.len() - 1);
    name[..length].copy_from_slice(&spec.name.as_bytes()[..length]);
    let (kind, flags) = spec.attach.kind();
    let mut attributes = LoadAttributes {
        kind,
        flags,
        instructions: u32::try_from(code.len()).map_err(|_| Errno::E2BIG)?,
        code: address(code.as_ptr()),
        license: address(LICENSE.as_ptr()),
        name,
        attach_type: spec.attach.number(),
        attach_btf_id: spec.btf_id,
        ..LoadAttributes::default()
    };
    if let Some(log) = log {
        attributes.log_level = LOG_LEVEL;
        attributes.log_size = u32::try_from(log.len()).map_err(|_| Errno::E2BIG)?;
        attributes.log = address(log.as_mut_ptr());
    }
    // SAFETY: the kernel reads as many instructions as `code` has and a license that ends with NUL, and writes
    // at most as many bytes as `log` has; both outlive the call.
    unsafe { command::open(PROG_LOAD, &mut attributes) }
}

/// Runs a program of [`Attach::Tracepoint`] at its tracepoint until the returned descriptor is closed.
pub(crate) fn attach_tracepoint(program: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    // The program names its tracepoint: the address of a name, of 64 bits, is NULL.
    let (name, reserved) = ([0; 2], 0);
    // SAFETY: the attributes have no address but NULL.
    unsafe { command::open(RAW_TRACEPOINT_OPEN, &mut [name[0], name[1], number(program), reserved]) }
}

/// Runs a program of [`Attach::Nowhere`] once, on this CPU.
pub(crate) fn run(program: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the attributes have no addresses.
    unsafe { command::run(PROG_TEST_RUN, &mut [number(program), 0]) }.map(drop)
}

//! Loads the programs that record threads that exit, and processes that execute files, and attaches them.
//!
//! At `sched_process_exit`, early in the exit of a thread, it still has its parent, its leader and, from Linux 6.16 on,
//! its memory. At `sched_process_free` its counters are complete: it has left its CPU for the last time, its parent has
//! waited for it, and after a grace period of RCU nothing refers to it. [`DeadThreads`] records it before. Some kernels free a few
//! threads without this tracepoint, so that the record of the exit has the counters too.
//!
//! At `sched_process_exec`, a process already has the name of the file. It got the name at `task_rename`, where the thread that
//! called execve(2) is the first thread, all others have exited, and the memory belongs to the file (`begin_new_exec` of
//! fs/exec.c).

use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use super::super::cgroup_ids::Hierarchies;
use super::assemble::Assembled;
use super::btf::{Btf, TypeId, kind};
use super::cgroup_fields::of_mounted;
use super::columns;
use super::dead_threads::{DeadThreads, DeathFields};
use super::layout::Layout;
use super::load::{Attach, ProgramSpec, load};
use super::new_cgroup;
use super::obstacle::of_errno;
use super::program::{Emitter, Kernel, ThreadEvent};
use super::setup::with_kernel;
use crate::model::{BpfObstacle, NoBpf};
use crate::sys::bpf::map::SharedWords;
use crate::sys::bpf::program::attach_tracepoint;
use crate::sys::bpf::ring::Ring;

/// Programs that record exits until they are dropped.
pub(super) struct ExitPrograms {
    pub(super) ring: Ring,
    /// The number of threads whose exit had no room in the ring.
    without_room: SharedWords,
    /// The program at the exit.
    program: OwnedFd,
    /// `None` where the kernel does not let this process copy from its memory.
    pub(super) dead: Option<DeadThreads>,
    _links: [OwnedFd; 2],
    /// Link of the program for new cgroups. Without it, the cgroup of a thread is unknown if no capture has seen it.
    _new_cgroups: Option<OwnedFd>,
    /// Program for execve(2). Without it, short-lived scripts have the names of their interpreters.
    pub(super) execs: Option<ExecProgram>,
}

/// The program at the execution of a file.
pub(super) struct ExecProgram {
    pub(super) layout: Layout,
    /// The number of executions that had no room in the ring.
    without_room: SharedWords,
    _link: OwnedFd,
    /// The program before it, which records what the process has done until then.
    _renames: OwnedFd,
}

/// How often something happened for which there is no record.
#[derive(Clone, Copy, Default)]
pub(super) struct WithoutRecord {
    /// Exits of threads for which there was no room in the ring.
    pub(super) no_room: u64,
    /// Exits of threads for which the kernel did not run the program.
    pub(super) not_run: u64,
    /// Executions of a program for which there was no room in the ring.
    pub(super) execs: u64,
}

impl WithoutRecord {
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            no_room: self.no_room.saturating_sub(earlier.no_room),
            not_run: self.not_run.saturating_sub(earlier.not_run),
            execs: self.execs.saturating_sub(earlier.execs),
        }
    }
}

impl ExitPrograms {
    /// Loads the programs and attaches them, with a ring of at least this many bytes. Records of exits have both parts of the
    /// layout, records of freed threads only the part of threads.
    pub(super) fn attach(ring_bytes: u32, hierarchies: &Hierarchies) -> Result<(Self, Layout), NoBpf> {
        with_kernel(|btf, kernel| {
            let ring = Ring::new(ring_bytes).map_err(of_errno)?;
            let [without_room, freed_without_room] =
                [SharedWords::new(1).map_err(of_errno)?, SharedWords::new(1).map_err(of_errno)?];
            let mut layout = Layout::resolve(btf, kernel.task, of_mounted(hierarchies, columns::exits()));
            // `typedef` is the type of the tracepoint's functions.
            let mut attach = |name, typedef, emit: &dyn Fn(&Layout) -> Assembled| {
                let TypeId(btf_id) = btf.find(kind::TYPEDEF, typedef).ok_or(BpfObstacle::NoTaskIterator)?;
                let spec = ProgramSpec { name, attach: Attach::Tracepoint, btf_id };
                let program = load(&spec, &mut layout, emit)?;
                let link = attach_tracepoint(program.as_fd()).map_err(of_errno)?;
                Ok::<_, NoBpf>((program, link))
            };
            let [to_ring, lost, lost_freed] =
                [&ring.map, &without_room.map, &freed_without_room.map].map(AsRawFd::as_raw_fd);
            let of_thread =
                |event, lost| move |layout: &Layout| Emitter { kernel, layout }.tracepoint(event, to_ring, lost);
            let new_cgroups = new_cgroup::fields(btf)
                .filter(|_| new_cgroup::paths_are_those_of_captures())
                .map(|fields| {
                    let emit = |_: &Layout| new_cgroup::program(to_ring, lost_freed, &fields);
                    attach("ctprof_cgroups", "btf_trace_cgroup_mkdir", &emit)
                })
                .and_then(|attached| attached.inspect_err(|error| tracing::info!("no new cgroups: {error:?}")).ok());
            // In this order, no thread is freed whose exit had no record.
            let (program, exit) =
                attach("ctprof_exits", "btf_trace_sched_process_exit", &of_thread(ThreadEvent::Exit, lost))?;
            let of_freed = of_thread(ThreadEvent::Freed, lost_freed);
            let (_, free) = attach("ctprof_freed", "btf_trace_sched_process_free", &of_freed)?;
            let new_cgroups = new_cgroups.map(|(_, link)| link);
            let of_renamed = of_thread(ThreadEvent::Rename, lost_freed);
            let execs = attach("ctprof_renames", "btf_trace_task_rename", &of_renamed)
                .and_then(|(_, renames)| exec_program((btf, kernel), renames, to_ring));
            let execs = execs.inspect_err(|error| tracing::info!("no started programs: {error:?}")).ok();
            let dead = dead_threads((btf, kernel), &layout, (to_ring, lost_freed));
            let links = [exit, free];
            Ok((Self { ring, without_room, program, dead, _links: links, _new_cgroups: new_cgroups, execs }, layout))
        })
    }

    /// Returns the numbers of events without a record, since the programs were attached.
    pub(super) fn without_record(&self, before: WithoutRecord) -> WithoutRecord {
        WithoutRecord {
            no_room: self.without_room.get(0),
            not_run: self.not_run().unwrap_or(before.not_run),
            execs: self.execs.as_ref().map_or(0, |execs| execs.without_room.get(0)),
        }
    }

    /// Threads for whose exit the kernel did not run the program.
    fn not_run(&self) -> Option<u64> {
        let fdinfo = format!("/proc/self/fdinfo/{}", self.program.as_raw_fd());
        fs::read_to_string(fdinfo).ok().map(|fdinfo| recursion_misses(&fdinfo))
    }
}

/// Loads the program for dead threads.
fn dead_threads((btf, kernel): (&Btf<'_>, Kernel), layout: &Layout, ring_and_lost: (i32, i32)) -> Option<DeadThreads> {
    let fields = DeathFields::find(btf, kernel.task)?;
    DeadThreads::new(|thread| {
        let mut copied = layout.clone();
        let spec = ProgramSpec { name: "ctprof_dead", attach: Attach::Nowhere, btf_id: 0 };
        let emit = |layout: &Layout| Emitter { kernel, layout }.dead_thread(&fields, thread, ring_and_lost);
        let program = load(&spec, &mut copied, emit);
        let program = program.inspect_err(|error| tracing::info!("dead threads are not recorded: {error:?}")).ok()?;
        // Of a field that the program drops, the ring has what was there before.
        (copied.dropped == layout.dropped).then_some(program)
    })
}

/// Loads and attaches the program at the execution of a file.
fn exec_program((btf, kernel): (&Btf<'_>, Kernel), renames: OwnedFd, ring: RawFd) -> Result<ExecProgram, NoBpf> {
    let without_room = SharedWords::new(1).map_err(of_errno)?;
    let lost = without_room.map.as_raw_fd();
    let mut layout = Layout::resolve(btf, kernel.task, columns::execs());
    let tracepoint = btf.find(kind::TYPEDEF, "btf_trace_sched_process_exec");
    let TypeId(btf_id) = tracepoint.ok_or(BpfObstacle::NoTaskIterator)?;
    let spec = ProgramSpec { name: "ctprof_execs", attach: Attach::Tracepoint, btf_id };
    let emit = |layout: &Layout| Emitter { kernel, layout }.tracepoint(ThreadEvent::Exec, ring, lost);
    let program = load(&spec, &mut layout, emit)?;
    let link = attach_tracepoint(program.as_fd()).map_err(of_errno)?;
    Ok(ExecProgram { layout, without_room, _link: link, _renames: renames })
}

/// How often the kernel did not run a program because it was running on that CPU, from the text of its `fdinfo`
/// (Linux 5.12). A thread in a program can leave its CPU to another where tracepoints do not disable preemption.
fn recursion_misses(fdinfo: &str) -> u64 {
    let misses = fdinfo.lines().find_map(|line| line.strip_prefix("recursion_misses:")?.trim().parse().ok());
    misses.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::at_least;
    use crate::skip::{Missing, skipped};

    #[test]
    fn exits_for_which_the_kernel_did_not_run_the_program_are_counted() {
        // Linux 6.18, `bpf_prog_show_fdinfo` of kernel/bpf/syscall.c.
        let fdinfo = "pos:\t0\nflags:\t02000002\nprog_type:\t17\nprog_jited:\t1\nrun_cnt:\t0\nrecursion_misses:\t7\n\
                      verified_insns:\t40\n";
        assert_eq!(recursion_misses(fdinfo), 7);
        assert_eq!(recursion_misses("pos:\t0\nprog_type:\t17\n"), 0, "before Linux 5.12");
    }

    #[test]
    fn the_kernel_says_how_often_it_did_not_run_the_program() {
        let programs = match ExitPrograms::attach(1 << 16, &Hierarchies::default()) {
            Ok((programs, _)) => programs,
            Err(no_bpf) => return skipped(Missing::Privilege(format!("BPF: {no_bpf:?}"))),
        };
        let fdinfo = fs::read_to_string(format!("/proc/self/fdinfo/{}", programs.program.as_raw_fd())).unwrap();
        let says = fdinfo.lines().any(|line| line.starts_with("recursion_misses:"));
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert!(says || !at_least(Some(release.trim()), (5, 12)), "{fdinfo}");
    }
}

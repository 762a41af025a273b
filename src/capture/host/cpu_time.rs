//! CPU time of the host, from `/proc/stat` and `/proc/schedstat`.

use std::thread;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use super::super::options::Tree;
use super::super::procfs::text::{lines, unsigned, words};
use super::super::start::nanoseconds;
use super::files::HostFiles;
use crate::model::HostCpuTime;

/// Versions of `/proc/schedstat` whose `cpu` lines are known; they differ in `domain` lines only
/// (`Documentation/scheduler/sched-stats.rst`). Linux 2.6.30 to 7.3 have one of these versions.
const SCHEDSTAT_VERSIONS: [&[u8]; 3] = [b"15", b"16", b"17"];

/// Reads the CPU time of the host, some time after the start of a capture; `None` if there is none.
///
/// It sleeps for a moment first: the kernel counts the time of a task when the task leaves its CPU, so the time since this thread
/// got its CPU, such as its start, would otherwise count as later than it was.
pub(crate) fn read(files: &HostFiles<'_>, start: Instant) -> Option<HostCpuTime> {
    thread::sleep(Duration::from_micros(1));
    let text = |name: &str| files.read(&files.roots.procfs.join(name)).unwrap_or_default();
    let read = || {
        let (begin, ran) = (start.elapsed(), thread_cpu_time());
        let (stat, schedstat) = (text("stat"), text("schedstat"));
        let (end, ran) = (start.elapsed(), thread_cpu_time().saturating_sub(ran));
        let took = end - begin;
        HostReading { texts: [stat, schedstat], at: (begin + end) / 2, took, stopped: took.saturating_sub(ran) }
    };
    let HostReading { texts: [stat, schedstat], at, .. } = read_undisturbed(read);
    let time = parse(&stat, &schedstat);
    let (tree, at_ns) = (files.roots.tree(), Some(nanoseconds(at)));
    (time != HostCpuTime::default()).then(|| HostCpuTime { own_ns: own(tree), at_ns, ..time })
}

/// Files of CPU time, and when they were read.
struct HostReading {
    texts: [Vec<u8>; 2],
    at: Duration,
    took: Duration,
    /// Time in between for which something else had the CPU.
    stopped: Duration,
}

/// Reads until nothing stopped this process in between: after a stop, the moment of the values is unknown.
///
/// With hundreds of CPUs, the kernel takes a while to write the files: then two readings took about as long. A single reading is
/// not enough, because the CPU time of a thread includes the time for which a hypervisor stopped it.
fn read_undisturbed(mut read: impl FnMut() -> HostReading) -> HostReading {
    const MOMENT: Duration = Duration::from_millis(5);
    const MOST_READS: usize = 5;
    let mut last = read();
    for _ in 1..MOST_READS {
        if last.took < MOMENT {
            break;
        }
        let before = std::mem::replace(&mut last, read());
        if last.stopped < MOMENT && before.took < 2 * last.took {
            break;
        }
    }
    last
}

/// CPU time of this thread.
pub(crate) fn thread_cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

fn own(tree: Tree) -> Option<u64> {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).ok().filter(|_| tree != Tree::Elsewhere)?;
    Some(nanoseconds(time.into()))
}

/// The values in these texts of both files.
pub(crate) fn parse(stat: &[u8], schedstat: &[u8]) -> HostCpuTime {
    let after = |key: &[u8]| lines(stat).find_map(|line| line.strip_prefix(key));
    let times = after(b"cpu ").unwrap_or_default();
    let cpus = cpu_lines(stat).count();
    // A file system in user space shows fewer CPUs in one of the files. A CPU can come or go between both.
    let of_tasks = times_of_tasks(schedstat).filter(|_| cpu_lines(schedstat).count() == cpus);
    let (run_ns, wait_ns) = of_tasks.unzip();
    HostCpuTime {
        cpus: u64::try_from(cpus).ok().filter(|&cpus| cpus > 0),
        task_ticks: [1, 2, 3].into_iter().try_fold(0, |sum: u64, number| sum.checked_add(column(times, number)?)),
        idle_ticks: column(times, 4),
        iowait_ticks: column(times, 5),
        interrupt_ticks: column(times, 6).zip(column(times, 7)).and_then(|(hard, soft)| hard.checked_add(soft)),
        steal_ticks: column(times, 8),
        started: after(b"processes ").and_then(unsigned),
        run_ns,
        wait_ns,
        ..HostCpuTime::default()
    }
}

/// The time that tasks ran, and that they waited, on all CPUs, in nanoseconds. The kernel adds to them when a
/// task gets and leaves a CPU (`rq_sched_info_arrive` and `rq_sched_info_depart` of `kernel/sched/stats.h`),
/// also while `kernel.sched_schedstats` is 0.
fn times_of_tasks(schedstat: &[u8]) -> Option<(u64, u64)> {
    let version = lines(schedstat).next()?.strip_prefix(b"version ")?;
    SCHEDSTAT_VERSIONS.contains(&version).then_some(())?;
    let mut cpus = cpu_lines(schedstat).map(|line| column(line, 8).zip(column(line, 9))).peekable();
    cpus.peek()?;
    cpus.try_fold((0u64, 0u64), |(run, wait), cpu| {
        let (more_run, more_wait) = cpu?;
        Some((run.checked_add(more_run)?, wait.checked_add(more_wait)?))
    })
}

/// The lines of single CPUs, such as `cpu0 …`.
fn cpu_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines(text).filter(|line| line.strip_prefix(b"cpu").and_then(<[u8]>::first).is_some_and(u8::is_ascii_digit))
}

/// A number of a line, counted from 1.
fn column(line: &[u8], number: usize) -> Option<u64> {
    unsigned(words(line).nth(number - 1)?)
}

#[cfg(test)]
mod tests {
    use super::super::super::options::Roots;
    use super::*;

    /// Linux 6.18, two CPUs; the line `intr` cut.
    const STAT: &[u8] = b"cpu  692389 535539 147303 972661 17561 3 1927 8789 0 0
cpu0 338270 250133 67339 524378 3048 0 451 4320 0 0
cpu1 354118 285405 79963 448283 14513 0 1476 4469 0 0
intr 11320843 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 1 15
ctxt 26251085
btime 1795292600
processes 1786802
procs_running 3
procs_blocked 0
softirq 9210313 0 619026 4 2015715 3363964 0 209 710168 0 2501227
";

    #[test]
    fn ticks_are_those_of_all_cpus() {
        let time = parse(STAT, b"");
        assert_eq!((time.cpus, time.idle_ticks, time.iowait_ticks), (Some(2), Some(972_661), Some(17_561)));
        assert_eq!((time.interrupt_ticks, time.steal_ticks), (Some(1930), Some(8789)));
        assert_eq!((time.started, time.run_ns, time.wait_ns), (Some(1_786_802), None, None));
    }

    /// Linux 6.12 while `kernel.sched_schedstats` is 0: columns 1 to 6 are 0.
    const SCHEDSTAT: &str = "version 16
timestamp 4294893094
cpu0 0 0 0 0 0 0 879388966 868913931 972
domain0 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
cpu1 0 0 0 0 0 0 1982344631 370682206 755
domain0 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
";

    #[test]
    fn files_are_read_again_if_something_stopped_the_process_and_not_because_the_kernel_takes_long() {
        // How long each reading takes, and how long of it the process is stopped as far as it knows.
        let reads_of = |readings: &[(u64, u64)]| {
            let mut rest = readings.iter();
            let last = read_undisturbed(|| {
                let [took, stopped] = rest.next().map(|&(took, ms)| [took, ms].map(Duration::from_millis)).unwrap();
                HostReading { texts: Default::default(), at: took, took, stopped }
            });
            (readings.len() - rest.count(), last.took.as_millis())
        };
        assert_eq!(reads_of(&[(1, 0), (1, 0)]), (1, 1));
        assert_eq!(reads_of(&[(20, 0), (21, 0), (20, 0)]), (2, 21), "hundreds of CPUs");
        assert_eq!(reads_of(&[(50, 0), (1, 0), (1, 0)]), (2, 1), "a hypervisor stopped the first");
        assert_eq!(reads_of(&[(80, 60), (20, 0), (21, 0), (20, 0)]), (3, 21));
        assert_eq!(reads_of(&[(9, 9); 9]), (5, 9));
        let begin = (Instant::now(), thread_cpu_time());
        while thread_cpu_time() < begin.1 + Duration::from_millis(10) {}
        assert!(begin.0.elapsed() + Duration::from_millis(1) > Duration::from_millis(10), "the time of one thread");
    }

    fn tasks(schedstat: &str) -> (Option<u64>, Option<u64>) {
        let time = parse(STAT, schedstat.as_bytes());
        (time.run_ns, time.wait_ns)
    }

    #[test]
    fn only_a_live_capture_has_cpu_time_of_its_own() {
        let before = own(Tree::Live).unwrap();
        while own(Tree::Live).unwrap() < before + 1_000_000 {}
        assert_eq!(own(Tree::Elsewhere), None);
    }

    #[test]
    fn times_of_tasks_are_sums_over_cpus() {
        let sums = (Some(879_388_966 + 1_982_344_631), Some(868_913_931 + 370_682_206));
        for version in ["version 15", "version 16", "version 17"] {
            assert_eq!(tasks(&SCHEDSTAT.replace("version 16", version)), sums);
        }
    }

    #[test]
    fn unknown_versions_and_malformed_lines_are_absent() {
        for (from, to) in [("version 16", "version 18"), ("370682206", "x"), ("cpu", "CPU"), ("0 0 ", "")] {
            assert_eq!(tasks(&SCHEDSTAT.replace(from, to)), (None, None), "{to}");
        }
        assert_eq!(parse(b"cpu x\nprocesses\n", b"version 15"), HostCpuTime::default());
        let of_one_cpu = parse(b"cpu  5 5 5 5 5 5 5 5 0 0\ncpu0 5 5 5 5 5 5 5 5 0 0\n", SCHEDSTAT.as_bytes());
        assert_eq!((of_one_cpu.cpus, of_one_cpu.run_ns), (Some(1), None), "/proc/schedstat has two CPUs");
        let cut = parse(b"cpu  5 5 5 7\ncpu0 5 5 5 7\n", b"");
        assert_eq!((cut.idle_ticks, cut.iowait_ticks, cut.steal_ticks), (Some(7), None, None), "columns of Linux 2.4");
        let roots = Roots { procfs: "/nonexistent".into(), ..Roots::default() };
        assert_eq!(read(&HostFiles::new(&roots), Instant::now()), None);
    }
}

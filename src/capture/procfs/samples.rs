//! Samples of threads by their files, without privileges: of the threads that the caller may trace.
//!
//! The third value of `schedstat` counts how often a thread got a CPU. Where it has not changed since the thread was last seen
//! asleep, the thread is taken to be in the same sleep, and nothing else is read: one that was woken and waits for a CPU looks
//! the same. Reports correct that by the counters, which have its wait.

use std::collections::{HashMap, HashSet};

use nix::errno::Errno;

use super::super::thread_flags::PF_KTHREAD;
use super::call_table::CallTables;
use super::directory::{Numbered, ProcDirectory, is_gone};
use super::last_schedstats::schedstat;
use super::text::StatFields;
use super::wait_functions::WaitFunctions;
use crate::model::{Activity, KernelEntry, Name, ThreadEnd, ThreadSample, printable};

/// After so many passes, rights and names of processes are examined again.
const EXAMINED_AGAIN: u64 = 64;

/// Reads the files of threads, one pass at a time.
pub(in crate::capture) struct ProcfsSampler {
    procfs: ProcDirectory,
    passes: u64,
    threads: HashMap<u32, SeenThread>,
    /// Names of processes, by process id.
    names: HashMap<u32, Name>,
    /// Processes that may not be traced.
    denied: HashSet<u32>,
    functions: WaitFunctions,
    tables: CallTables,
    buffer: Vec<u8>,
}

/// Activity of a thread when it was last seen.
struct SeenThread {
    schedstat: [u64; 3],
    is_asleep: bool,
    pass: u64,
    tgid: u32,
    life: Life,
    /// End to report once the thread has exited.
    end: ThreadEnd,
}

/// Whether a thread lives. It can be listed long after its end.
#[derive(PartialEq, Eq)]
enum Life {
    Lives,
    Ended,
    /// It has ended, and its end was reported, or was before the first pass.
    EndReported,
}

impl ProcfsSampler {
    pub(in crate::capture) fn new(procfs: ProcDirectory) -> Self {
        Self {
            procfs,
            passes: 0,
            threads: HashMap::new(),
            names: HashMap::new(),
            denied: HashSet::new(),
            functions: WaitFunctions::default(),
            tables: CallTables::new(),
            buffer: Vec::new(),
        }
    }

    /// Adds the samples of one pass.
    pub(in crate::capture) fn pass(&mut self, samples: &mut Vec<ThreadSample>) -> Result<(), Errno> {
        self.passes += 1;
        if self.passes.is_multiple_of(EXAMINED_AGAIN) {
            self.denied.clear();
            self.names.clear();
            self.tables.forget();
        }
        for tgid in self.procfs.ids()? {
            if self.denied.contains(&tgid) {
                continue;
            }
            let listed = self.procfs.directory(&format!("{tgid}/task")).and_then(|tasks| Ok((tasks.ids()?, tasks)));
            let (tids, tasks) = match listed {
                Ok(listed) => listed,
                // A process that has exited meanwhile has no threads.
                Err(errno) if is_gone(errno) => continue,
                // Nobody knows which of its threads have exited.
                Err(_) => {
                    let of_it = self.threads.values_mut().filter(|thread| thread.tgid == tgid);
                    of_it.for_each(|thread| thread.pass = self.passes);
                    continue;
                }
            };
            for tid in tids {
                match self.thread(&tasks, [tgid, tid], samples.len()) {
                    Err(Errno::EPERM | Errno::EACCES) => {
                        self.denied.insert(tgid);
                        // They live on.
                        self.threads.retain(|_, thread| thread.tgid != tgid);
                        break;
                    }
                    // A thread that cannot be read now has not exited.
                    Err(errno) if !is_gone(errno) => {
                        self.threads.entry(tid).and_modify(|thread| thread.pass = self.passes);
                    }
                    sample => samples.extend(sample.ok().flatten()),
                }
            }
        }
        self.tables.decide(samples);
        Ok(())
    }

    /// The threads that the last pass found dead, or did not find any more. When they exited is unknown.
    pub(in crate::capture) fn take_ends(&mut self) -> Vec<ThreadEnd> {
        let last = self.passes;
        let gone = self.threads.extract_if(|_, thread| thread.pass < last).map(|(_, thread)| thread);
        let mut ends: Vec<_> =
            gone.filter(|thread| thread.life != Life::EndReported).map(|thread| thread.end).collect();
        for thread in self.threads.values_mut().filter(|thread| thread.life == Life::Ended) {
            thread.life = Life::EndReported;
            ends.push(thread.end.clone());
        }
        ends
    }

    /// The processes that may not be traced.
    pub(in crate::capture) fn denied(&self) -> &HashSet<u32> {
        &self.denied
    }

    /// How many entries each map has that outlives a pass.
    pub(in crate::capture) fn entries(&self) -> Vec<(&'static str, usize)> {
        let Self { threads, names, denied, functions, .. } = self;
        vec![
            ("sampled threads", threads.len()),
            ("sampled names", names.len() + denied.len()),
            ("functions", functions.entries()),
        ]
    }

    /// Makes the next pass sample all threads. The samples before have other numbers of functions.
    pub(in crate::capture) fn forget(&mut self) {
        self.functions.forget();
        self.threads.values_mut().for_each(|thread| thread.is_asleep = false);
    }

    /// The functions in the place of addresses.
    pub(in crate::capture) fn functions(&self) -> HashMap<u64, Name> {
        self.functions.names()
    }

    /// The sample of a thread, which will be at `at`; `None` if it is in the same sleep as before.
    fn thread(
        &mut self,
        tasks: &ProcDirectory,
        [tgid, tid]: [u32; 2],
        at: usize,
    ) -> Result<Option<ThreadSample>, Errno> {
        let mut files = Numbered::new(tasks, tid);
        let schedstat = schedstat(files.read("schedstat", &mut self.buffer)?).ok_or(Errno::ENODATA)?;
        let pass = self.passes;
        let mut before = [0; 3];
        if let Some(seen) = self.threads.get_mut(&tid) {
            seen.pass = pass;
            before = seen.schedstat;
            if seen.is_asleep && before[2] == schedstat[2] {
                return Ok(None);
            }
        }
        let stat = StatFields::parse(files.read("stat", &mut self.buffer)?, |_| {});
        let Some((name, StatFields { state: Some(state), flags: Some(flags), start: Some(start), .. })) = stat else {
            return Err(Errno::ENODATA);
        };
        let (comm, is_user): (Name, _) = (printable(name).into(), flags & PF_KTHREAD == 0);
        if tid == tgid {
            self.names.insert(tgid, Name::clone(&comm));
        }
        let pcomm = Name::clone(self.names.get(&tgid).unwrap_or(&comm));
        let end = ThreadEnd {
            tid,
            start_time_clock_ticks: start,
            pcomm: Name::clone(&pcomm),
            comm: Name::clone(&comm),
            ..ThreadEnd::default()
        };
        let Some(activity) = activity(state, before, schedstat) else {
            self.note_dead(SeenThread { schedstat, is_asleep: true, pass, tgid, life: Life::Ended, end });
            return Ok(None);
        };
        let is_asleep = activity.is_sleep();
        let mut entry = KernelEntry::Unknown;
        let mut stack = Vec::new();
        if is_asleep {
            if is_user {
                entry = self.tables.entry(at, tgid, files.read("syscall", &mut self.buffer)?);
            }
            stack.extend(self.functions.number(files.read("wchan", &mut self.buffer).unwrap_or_default()));
            if stack.is_empty() && !is_user {
                return Err(Errno::EPERM);
            }
        }
        self.threads.insert(tid, SeenThread { schedstat, is_asleep, pass, tgid, life: Life::Lives, end });
        let process_started = self.threads.get(&tgid).map(|leader| leader.end.start_time_clock_ticks);
        Ok(Some(ThreadSample {
            tid,
            tgid,
            start_time_clock_ticks: start,
            process_started,
            pcomm,
            comm,
            kernel_thread: !is_user,
            switches: schedstat[2],
            activity,
            entry,
            stack,
            ..ThreadSample::default()
        }))
    }

    /// Notes a thread that has ended, though it is listed until its parent waits for it.
    fn note_dead(&mut self, mut dead: SeenThread) {
        let before = self.threads.get(&dead.end.tid);
        let is_same = before.is_some_and(|seen| seen.end.start_time_clock_ticks == dead.end.start_time_clock_ticks);
        let is_reported = is_same && before.is_some_and(|seen| seen.life == Life::EndReported);
        if is_reported || self.passes == 1 {
            dead.life = Life::EndReported;
        }
        self.threads.insert(dead.end.tid, dead);
    }
}

/// Returns the activity of a thread, by its state and its `schedstat` before and now. Procfs does not tell threads that run from
/// threads that are ready to run: the activity is the one that took the larger part of the time since.
fn activity(state: u8, before: [u64; 3], now: [u64; 3]) -> Option<Activity> {
    let increase = |index: usize| now[index].saturating_sub(before[index]);
    Some(match state {
        b'R' if increase(0) > increase(1) => Activity::Running,
        b'R' => Activity::Runnable,
        b'S' | b'I' | b'P' => Activity::Asleep,
        b'D' => Activity::Blocked,
        b'T' => Activity::Stopped,
        b't' => Activity::Traced,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use nix::libc;

    use super::*;

    #[test]
    fn what_a_thread_got_is_in_three_numbers() {
        // Linux 6.18, `proc_pid_schedstat` of fs/proc/base.c.
        assert_eq!(schedstat(b"1160292 190113 2\n"), Some([1_160_292, 190_113, 2]));
        assert_eq!(schedstat(b"1160292 190113\n"), None);
    }

    #[test]
    fn a_thread_that_is_ready_did_what_it_did_for_the_larger_part() {
        let of = |now| activity(b'R', [100, 100, 1], now);
        assert_eq!((of([300, 150, 2]), of([150, 300, 2]), of([100, 100, 1])), {
            use Activity::{Runnable, Running};
            (Some(Running), Some(Runnable), Some(Runnable))
        });
        assert_eq!([b'Z', b'X'].map(|state| activity(state, [0; 3], [0; 3])), [None; 2]);
    }

    /// A tree of files of threads.
    struct Tree(tempfile::TempDir);

    /// The files of a thread: `stat` with its name, state, flags and start, then `schedstat`, `syscall` and `wchan`.
    type Files<'f> = ((&'f str, char, u64, u64), [&'f str; 3]);

    impl Tree {
        fn sampler(&self) -> ProcfsSampler {
            ProcfsSampler::new(ProcDirectory::open(self.0.path()).unwrap())
        }

        fn write(&self, [tgid, tid]: [u32; 2], ((name, state, flags, start), files): Files<'_>) {
            let directory = self.0.path().join(format!("{tgid}/task/{tid}"));
            std::fs::create_dir_all(&directory).unwrap();
            // Linux 6.18, `do_task_stat` of fs/proc/array.c: the state is field 3, the flags 9, the start 22.
            let stat = format!("{tid} ({name}) {state} 1 7 7 0 -1 {flags} 0 0 0 0 5 5 0 0 20 0 1 0 {start} 4096 7\n");
            std::fs::write(directory.join("stat"), stat).unwrap();
            for (file, text) in ["schedstat", "syscall", "wchan"].into_iter().zip(files) {
                std::fs::write(directory.join(file), text).unwrap();
            }
        }
    }

    fn pass(sampler: &mut ProcfsSampler) -> Vec<ThreadSample> {
        let mut samples = Vec::new();
        sampler.pass(&mut samples).unwrap();
        samples
    }

    #[test]
    fn a_thread_that_cannot_be_read_has_not_exited() {
        let tree = Tree(tempfile::tempdir().unwrap());
        [[7, 7], [7, 8], [9, 9]].into_iter().for_each(|ids| tree.write(ids, SLEEPER));
        let mut sampler = tree.sampler();
        pass(&mut sampler);
        let task = |ids: &str| tree.0.path().join(ids);
        // Directories, of which reading fails with EISDIR and ENOTDIR.
        std::fs::remove_file(task("7/task/8/schedstat")).unwrap();
        std::fs::create_dir(task("7/task/8/schedstat")).unwrap();
        std::fs::rename(task("9/task"), task("9/moved")).unwrap();
        std::fs::write(task("9/task"), "").unwrap();
        pass(&mut sampler);
        assert_eq!(sampler.take_ends(), []);
        std::fs::remove_file(task("9/task")).unwrap();
        pass(&mut sampler);
        assert_eq!(sampler.take_ends().iter().map(|end| end.tid).collect::<Vec<_>>(), [9]);
    }

    const FUTEX: &str = "202 0x7f0000000000 0x189 0x0 0x0 0x0 0x0 0x7ffd00000000 0x7f3a00000000\n";
    const SLEEPER: Files<'_> = (("a (b) c", 'S', 0x40_0000, 55), ["9 1 3\n", FUTEX, "futex_wait_queue"]);

    #[test]
    fn a_sample_has_the_names_the_start_the_state_and_the_function_of_its_thread() {
        let tree = Tree(tempfile::tempdir().unwrap());
        tree.write([7, 7], SLEEPER);
        tree.write([7, 8], (("io", 'D', 0x40_0000, 60), ["9 1 4\n", FUTEX, "folio_wait_bit\n"]));
        tree.write([7, 9], (("runs", 'R', 0x40_0000, 61), ["9 1 5\n", "running\n", "0"]));
        tree.write([7, 10], (("stops", 'T', 0x40_0000, 62), ["9 1 6\n", FUTEX, "0"]));
        tree.write([7, 11], (("dead", 'Z', 0x40_0000, 63), ["9 1 6\n", "", "0"]));
        tree.write([12, 12], (("kworker", 'I', PF_KTHREAD | 0x40, 3), ["9 1 7\n", FUTEX, "worker_thread"]));
        let mut sampler = tree.sampler();
        let samples = pass(&mut sampler);
        let of = |tid, comm: &str, start, switches, activity| ThreadSample {
            tid,
            tgid: 7,
            start_time_clock_ticks: start,
            process_started: Some(55),
            pcomm: "a (b) c".into(),
            comm: comm.into(),
            switches,
            activity,
            ..ThreadSample::default()
        };
        let call = KernelEntry::SystemCall(202, [0x7f00_0000_0000, 0x189]);
        let expected = [
            ThreadSample { entry: call, stack: vec![1], ..of(7, "a (b) c", 55, 3, Activity::Asleep) },
            ThreadSample { entry: call, stack: vec![2], ..of(8, "io", 60, 4, Activity::Blocked) },
            of(9, "runs", 61, 5, Activity::Running),
            ThreadSample { entry: call, ..of(10, "stops", 62, 6, Activity::Stopped) },
            ThreadSample {
                tgid: 12,
                process_started: Some(3),
                pcomm: "kworker".into(),
                kernel_thread: true,
                stack: vec![3],
                ..of(12, "kworker", 3, 7, Activity::Asleep)
            },
        ];
        assert_eq!(samples, expected, "a thread that has exited is none");
        let functions = sampler.functions();
        let named = [(1, "futex_wait_queue"), (2, "folio_wait_bit"), (3, "worker_thread")];
        assert_eq!(functions, named.map(|(number, name)| (number, name.into())).into());
    }

    #[test]
    fn a_thread_is_sampled_again_once_it_has_run_or_when_all_are() {
        let tree = Tree(tempfile::tempdir().unwrap());
        tree.write([7, 7], SLEEPER);
        let mut sampler = tree.sampler();
        let count = |sampler: &mut ProcfsSampler| pass(sampler).len();
        assert_eq!([(); 2].map(|()| count(&mut sampler)), [1, 0], "it sleeps on");
        sampler.forget();
        assert_eq!([(); 2].map(|()| count(&mut sampler)), [1, 0], "once after all were forgotten");
        tree.write([7, 7], (SLEEPER.0, ["10 1 4\n", FUTEX, "futex_wait_queue"]));
        assert_eq!([(); 2].map(|()| count(&mut sampler)), [1, 0], "another sleep");
        assert_eq!(sampler.functions().len(), 1, "a function has one number");
        tree.write([7, 7], (("a (b) c", 'R', 0, 55), ["10 1 4\n", FUTEX, "0"]));
        sampler.forget();
        assert_eq!([(); 2].map(|()| count(&mut sampler)), [1, 1], "a thread that is ready is sampled in each pass");
    }

    #[test]
    fn only_threads_that_a_pass_does_not_find_have_ended() {
        let tree = Tree(tempfile::tempdir().unwrap());
        tree.write([7, 7], SLEEPER);
        tree.write([8, 8], SLEEPER);
        let mut sampler = tree.sampler();
        pass(&mut sampler);
        assert!(sampler.take_ends().is_empty());
        std::fs::remove_dir_all(tree.0.path().join("8")).unwrap();
        pass(&mut sampler);
        let ends: Vec<_> = sampler.take_ends().iter().map(|end| (end.tid, end.start_time_clock_ticks)).collect();
        assert_eq!(ends, [(8, 55)]);
        assert!(sampler.take_ends().is_empty());
    }

    #[test]
    fn a_thread_that_no_pass_saw_alive_has_ended_once_if_it_is_listed_since_the_first_pass() {
        let zombie = |start| (("short", 'Z', 0, start), ["1 1 1\n", "", "0"]);
        let tree = Tree(tempfile::tempdir().unwrap());
        tree.write([7, 7], zombie(55));
        let mut sampler = tree.sampler();
        let mut ends = || {
            pass(&mut sampler);
            sampler.forget();
            sampler.take_ends().iter().map(|end| (end.tid, end.start_time_clock_ticks)).collect::<Vec<_>>()
        };
        assert_eq!(ends(), [], "it ended before");
        tree.write([8, 8], zombie(60));
        assert_eq!([ends(), ends()], [vec![(8, 60)], vec![]]);
        tree.write([8, 8], zombie(61));
        assert_eq!(ends(), [(8, 61)], "another one has its id");
        std::fs::remove_dir_all(tree.0.path().join("8")).unwrap();
        assert_eq!(ends(), []);
    }

    #[test]
    fn a_kernel_thread_without_its_function_says_that_it_may_not_be_read() {
        let tree = Tree(tempfile::tempdir().unwrap());
        tree.write([2, 2], (("kthreadd", 'S', PF_KTHREAD, 1), ["9 1 7\n", FUTEX, "0"]));
        tree.write([7, 7], (SLEEPER.0, ["9 1 3\n", FUTEX, "0"]));
        let mut sampler = tree.sampler();
        let tids: Vec<_> = pass(&mut sampler).iter().map(|sample| (sample.tid, sample.stack.len())).collect();
        assert_eq!(tids, [(7, 0)], "a thread of a program has its system call");
        assert!(sampler.denied.contains(&2));
    }

    #[test]
    fn an_ordinary_user_samples_processes_of_their_own() {
        let mut sleep = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let mut sampler = ProcfsSampler::new(ProcDirectory::open(Path::new("/proc")).unwrap());
        let id = sleep.id();
        let mut pass = || {
            let mut samples = Vec::new();
            sampler.pass(&mut samples).unwrap();
            (samples.into_iter().find(|sample| sample.tid == id), sampler.functions())
        };
        let (sample, functions) = pass();
        let sample = sample.unwrap();
        let nanosleep = u32::try_from(libc::SYS_clock_nanosleep).unwrap();
        assert_eq!((&*sample.pcomm, sample.activity), ("sleep", Activity::Asleep));
        assert!(matches!(sample.entry, KernelEntry::SystemCall(number, _) if number == nanosleep), "{sample:?}");
        if let [function] = sample.stack[..] {
            assert!(functions[&function].contains("nanosleep"), "{functions:?}");
        }
        assert_eq!(pass().0, None, "it sleeps on");
        sleep.kill().and_then(|()| sleep.wait()).unwrap();
        sampler.pass(&mut Vec::new()).unwrap();
        assert!(sampler.take_ends().iter().any(|end| end.tid == id && &*end.comm == "sleep"));
    }
}

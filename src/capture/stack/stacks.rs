//! Stacks of threads that sleep, each known by a number until all are forgotten.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::super::bpf::sleep_check::SleepCheck;
use super::super::host::cpu_time::thread_cpu_time;
use super::code_files::CodeFiles;
use super::process_code::ProcessCode;
use super::registers::numbered;
use super::stack_list::StackList;
use super::stack_memory::StackMemory;
use super::stack_names::StackNames;
use super::unwinder::{CodeAddress, FoundCode, Unwinder};
use crate::model::{CODE_REGISTERS, Name};

/// Processes whose memory and mappings stay open, at most: each has two files open.
const MAX_PROCESSES: usize = 48;
/// The part of one CPU that stacks may take: one in so many seconds, and at first this long.
const PART_OF_CPU: u32 = 200;
const FIRST_TIME: Duration = Duration::from_millis(200);
/// How long the list of mappings of a process is believed to have all.
const LASTS: Duration = Duration::from_secs(1);

/// A thread that sleeps, as its sample says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::capture) struct Sleeper {
    pub(in crate::capture) tid: u32,
    pub(in crate::capture) tgid: u32,
    pub(in crate::capture) switches: u64,
    pub(in crate::capture) registers: [u64; CODE_REGISTERS],
}

/// A thread that ran, with the words from its stack pointer on.
#[derive(Clone, Debug)]
pub(in crate::capture) struct RunningThread {
    pub(in crate::capture) tid: u32,
    pub(in crate::capture) tgid: u32,
    pub(in crate::capture) registers: [u64; CODE_REGISTERS],
    pub(in crate::capture) stack: Vec<u64>,
}

/// Reads stacks, and names their functions.
pub(in crate::capture) struct Stacks {
    files: CodeFiles,
    processes: HashMap<u32, OpenProcess>,
    read: u64,
    unwinder: Unwinder,
    check: SleepCheck,
    list: StackList,
    names: StackNames,
    began: Instant,
    used: Duration,
}

/// A process whose stacks are read.
struct OpenProcess {
    /// `None` if the caller may not read the process.
    code: Option<ProcessCode>,
    /// Number of the stack that used it last.
    used: u64,
    /// How long the list of mappings is not read again although a caller is in no mapping. Longer for code of a just-in-time compiler.
    lasts: Duration,
}

/// The stack of a sleeper, as far as it can be read.
struct ReadStack {
    /// Addresses in functions, the innermost first.
    addresses: Vec<CodeAddress>,
    /// Whether an address was in no file.
    is_unmapped: bool,
}

impl Stacks {
    pub(in crate::capture) fn new(check: SleepCheck) -> Self {
        Self {
            files: CodeFiles::new(),
            processes: HashMap::new(),
            read: 0,
            unwinder: Unwinder::new(),
            check,
            list: StackList::default(),
            names: StackNames::default(),
            began: Instant::now(),
            used: Duration::ZERO,
        }
    }

    /// The number of a sleeper's stack; `None` if it cannot be read, or if stacks have taken too much time.
    pub(in crate::capture) fn number(&mut self, sleeper: &Sleeper) -> Option<u32> {
        self.in_budget(|stacks| stacks.read(sleeper))
    }

    /// The number of the stack of a thread that ran; `None` as for a sleeper.
    pub(in crate::capture) fn number_of_running(&mut self, thread: &RunningThread) -> Option<u32> {
        self.in_budget(|stacks| stacks.unwind_copy(thread))
    }

    fn in_budget(&mut self, read: impl FnOnce(&mut Self) -> Option<u32>) -> Option<u32> {
        if self.used > FIRST_TIME + self.began.elapsed() / PART_OF_CPU {
            return None;
        }
        let before = thread_cpu_time();
        let number = read(self);
        self.used += thread_cpu_time().saturating_sub(before);
        number
    }

    fn unwind_copy(&mut self, thread: &RunningThread) -> Option<u32> {
        let RunningThread { tgid, registers, ref stack, .. } = *thread;
        let [instruction, start, ..] = registers;
        self.open(tgid, instruction);
        let (space, mappings) = self.processes.get_mut(&tgid)?.code.as_mut()?.parts();
        let mut memory = StackMemory::new(space);
        // The copy has no code.
        let mut find = |at: u64| match mappings.find(at, &mut self.files) {
            FoundCode::OfNoFile if memory.word(at & !7).is_some() => FoundCode::Mapped,
            found => found,
        };
        let word = |at: u64| stack.get(usize::try_from(at.checked_sub(start)? / 8).ok()?).copied();
        let addresses = self.unwinder.unwind(tgid, numbered(&registers), &mut find, &mut |at| word(at));
        self.list.number(&addresses)
    }

    fn read(&mut self, sleeper: &Sleeper) -> Option<u32> {
        let Sleeper { tid, tgid, switches, registers } = *sleeper;
        let [instruction, stack, ..] = registers;
        let mut read = self.unwind_memory(sleeper)?;
        let lasts = self.processes.get(&tgid).map_or(LASTS, |process| process.lasts);
        let is_old = |process: &OpenProcess| process.code.as_ref().is_some_and(|code| code.age() > lasts);
        if read.is_unmapped && self.processes.get(&tgid).is_some_and(is_old) {
            // A library may have been loaded since the list of mappings was read.
            self.processes.remove(&tgid);
            read = self.unwind_memory(sleeper).unwrap_or(read);
            let again = self.processes.get_mut(&tgid).filter(|_| read.is_unmapped);
            again.into_iter().for_each(|process| process.lasts = lasts * 2);
        }
        let place = (tid, instruction, stack);
        // Meanwhile, the thread may have gone on, and sleep elsewhere: what was read can be of both sleeps.
        if self.check.switches_asleep(tid) == Some(switches) {
            self.list.add(place, &read.addresses)
        } else {
            self.list.add_unread(place, *read.addresses.first()?)
        }
    }

    /// Returns the stack of a sleeper; `None` if its process is gone.
    fn unwind_memory(&mut self, sleeper: &Sleeper) -> Option<ReadStack> {
        let Sleeper { tgid, registers, .. } = *sleeper;
        self.open(tgid, registers[0]);
        let code = self.processes.get_mut(&tgid)?.code.as_mut()?;
        // What is read and what is found are parts of the same process: their borrows are apart.
        let (space, mappings) = code.parts();
        let (mut memory, mut is_unmapped) = (StackMemory::new(space), false);
        let mut find = |at| {
            let found = mappings.find(at, &mut self.files);
            is_unmapped |= matches!(found, FoundCode::OfNoFile);
            found
        };
        let addresses = self.unwinder.unwind(tgid, numbered(&registers), &mut find, &mut |at| memory.word(at));
        if memory.is_gone {
            // It executed another program, or exited.
            self.processes.remove(&tgid);
            return None;
        }
        Some(ReadStack { addresses, is_unmapped })
    }

    /// Opens a process, if that has not been done, or if it may have mapped the code at this address since.
    fn open(&mut self, id: u32, instruction: u64) {
        self.read += 1;
        if let Some(OpenProcess { code, used, .. }) = self.processes.get_mut(&id) {
            *used = self.read;
            if code.as_ref().is_none_or(|code| code.has(instruction) || code.age() <= LASTS) {
                return;
            }
        } else if self.processes.len() >= MAX_PROCESSES {
            let oldest = self.processes.iter().min_by_key(|(_, process)| process.used).map(|(id, _)| *id);
            oldest.map(|oldest| self.processes.remove(&oldest));
        }
        self.processes.insert(id, OpenProcess { code: ProcessCode::open(id), used: self.read, lasts: LASTS });
    }

    /// The functions of these stacks, as [`CodeFunction`](crate::model::CodeFunction) reads them.
    pub(in crate::capture) fn names(&mut self, numbers: &[u32]) -> HashMap<u32, Name> {
        self.names.name_stacks(numbers, &self.list, &self.files)
    }

    /// Forgets all stacks: their numbers will be used again.
    pub(in crate::capture) fn forget(&mut self) {
        (self.list, self.names) = (StackList::default(), StackNames::default());
        self.processes.clear();
        self.files.forget();
        self.unwinder.forget();
    }

    /// CPU time that was used for stacks.
    pub(in crate::capture) fn used(&self) -> Duration {
        self.used
    }

    /// How many entries each map has.
    pub(in crate::capture) fn entries(&self) -> Vec<(&'static str, usize)> {
        let stacks = self.list.entries() + self.names.entries();
        let code = self.files.entries() + self.processes.len();
        vec![("stacks", stacks), ("programs with stacks", code), ("unwind rules", self.unwinder.entries())]
    }
}

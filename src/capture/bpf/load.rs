//! Loads a program, without the columns that the running kernel's verifier refuses.

use std::os::fd::OwnedFd;

use super::assemble::Assembled;
use super::layout::Layout;
use super::obstacle;
use super::verifier_log::VerifierRefusal;
use crate::model::NoBpf;
use crate::sys::bpf::program;
pub(super) use crate::sys::bpf::program::{Attach, ProgramSpec};

/// Columns that are left out, at most. A kernel that refuses more refuses nearly all.
const MAX_DROPPED: usize = 32;

/// The longest log that Linux 5.10 accepts. The pages that a log does not reach take no memory.
const LOG_SIZE: usize = (16 << 20) - 1;

/// Loads the program that `emit` returns for a layout. If the verifier refuses an instruction that is marked with a
/// column, the layout drops that column, and `emit` is called again.
pub(super) fn load(
    spec: &ProgramSpec<'_>,
    layout: &mut Layout,
    mut emit: impl FnMut(&Layout) -> Assembled,
) -> Result<OwnedFd, NoBpf> {
    loop {
        let Assembled { code, columns } = emit(layout);
        if let Ok(program) = program::load(spec, &code, None) {
            return Ok(program);
        }
        // With a log, the kernel takes several times as long.
        let mut log = vec![0; LOG_SIZE];
        let errno = match program::load(spec, &code, Some(&mut log)) {
            Ok(program) => return Ok(program),
            Err(errno) => errno,
        };
        let refusal = VerifierRefusal::parse(&text(&log));
        let column = refusal.instruction.and_then(|number| columns.get(number).copied().flatten());
        // A column that is refused a second time is one that `emit` cannot leave out.
        let is_new = column.is_some_and(|column| layout.dropped.len() < MAX_DROPPED && layout.dropped.insert(column));
        if !is_new {
            return Err(obstacle::explain(errno, &refusal.reason));
        }
    }
}

/// The text before the terminating NUL.
fn text(log: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(log.split(|&byte| byte == 0).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use crate::skip::{Missing, skipped};
    use std::collections::BTreeSet;
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
    use std::sync::{Arc, Barrier};
    use std::time::{Duration, Instant};

    use super::super::assemble::Register::{Frame, R0, R1, R2, R3, R6, R7, R8, R9};
    use super::super::assemble::{Assembler, Helper, Width};
    use super::super::tests::listing::listing;
    use super::*;
    use crate::model::BpfObstacle;
    use crate::sys::bpf::iterator;
    use crate::sys::bpf::kernel_btf::KernelBtf;
    use crate::sys::bpf::map::{self, SharedWords};
    use crate::sys::bpf::program::attach_tracepoint;
    use crate::sys::bpf::ring::Ring;

    const FUNCTION: u32 = 12;
    const TYPEDEF: u32 = 8;

    /// The id of a type in the kernel's BTF (`Documentation/bpf/btf.rst`); `None` prints why the test is skipped.
    fn btf_id(kind: u32, name: &str) -> Option<u32> {
        let btf = KernelBtf::open().map_err(|error| skipped(Missing::Kernel(error))).ok()?;
        let word = |at: usize| u32::from_ne_bytes(btf[at..at + 4].try_into().unwrap());
        let size = |at: usize| usize::try_from(word(at)).unwrap();
        let (types, strings) = (size(4) + size(8), size(4) + size(16));
        let (mut at, mut id) = (types, 1);
        while at < types + size(12) {
            let (kind_here, members) = (word(at + 4) >> 24 & 0x1f, size(at + 4) & 0xffff);
            let text = btf[strings + size(at)..].split(|&byte| byte == 0).next().unwrap();
            if kind_here == kind && text == name.as_bytes() {
                return Some(id);
            }
            at += 12
                + match kind_here {
                    1 | 14 | 17 => 4,
                    3 => 12,
                    4 | 5 | 15 | 19 => 12 * members,
                    6 | 13 => 8 * members,
                    _ => 0,
                };
            id += 1;
        }
        skipped(Missing::Kernel(name));
        None
    }

    fn task_iterator() -> Option<ProgramSpec<'static>> {
        let btf_id = btf_id(FUNCTION, "bpf_iter_task")?;
        Some(ProgramSpec { name: "test_threads", attach: Attach::Iterator, btf_id })
    }

    /// `None` prints why the test is skipped.
    fn loaded(spec: &ProgramSpec<'_>, layout: &mut Layout, emit: impl FnMut(&Layout) -> Assembled) -> Option<OwnedFd> {
        match load(spec, layout, emit) {
            Err(no_bpf) if no_bpf.cause != BpfObstacle::Verifier => {
                skipped(Missing::Privilege(format!("BPF: {no_bpf:?}")));
                None
            }
            result => Some(result.unwrap()),
        }
    }

    /// A task iterator that writes `length` bytes of a per-CPU array's element per thread, after what `body` adds.
    /// R7 has the thread.
    fn iterator_program(element: BorrowedFd<'_>, length: i32, body: impl FnOnce(&mut Assembler)) -> Assembled {
        let mut program = Assembler::default();
        let end = program.label();
        program.mov(R6, R1);
        program.load(Width::U64, R7, R6, 8);
        program.jump_if_equal(R7, 0, end);
        element_of(&mut program, element);
        program.jump_if_equal(R0, 0, end);
        program.mov(R8, R0);
        program.store_immediate(Width::U64, R8, 0, 42);
        body(&mut program);
        program.mark(None);
        program.load(Width::U64, R1, R6, 0);
        program.load(Width::U64, R1, R1, 0);
        program.mov(R2, R8);
        program.mov_immediate(R3, length);
        program.call(Helper::SeqWrite);
        program.place(end);
        program.mov_immediate(R0, 0);
        program.exit();
        program.finish()
    }

    /// R0 becomes the address of element 0 of a map, or NULL.
    fn element_of(program: &mut Assembler, map: BorrowedFd<'_>) {
        program.store_immediate(Width::U32, Frame, -4, 0);
        program.load_map(R1, map.as_raw_fd());
        program.mov(R2, Frame);
        program.add_immediate(R2, -4);
        program.call(Helper::MapLookupElem);
    }

    /// Runs `body` while `count` more threads exist.
    fn with_threads(count: usize, body: impl FnOnce()) {
        let barrier = Arc::new(Barrier::new(count + 1));
        let wait = |barrier: Arc<Barrier>| move || [(); 2].map(|()| barrier.wait().is_leader());
        let threads: Vec<_> = (0..count).map(|_| std::thread::spawn(wait(Arc::clone(&barrier)))).collect();
        barrier.wait();
        body();
        barrier.wait();
        assert!(threads.into_iter().all(|thread| thread.join().is_ok()));
    }

    #[test]
    fn an_iterator_visits_each_thread() {
        let Some(spec) = task_iterator() else { return };
        let Ok(element) = map::per_cpu_array(1000) else { return skipped(Missing::Privilege("BPF maps")) };
        let Some(program) = loaded(&spec, &mut Layout::default(), |_| iterator_program(element.as_fd(), 1000, |_| ()))
        else {
            return;
        };
        let count = || {
            let link = iterator::link(program.as_fd(), None).unwrap();
            let pass = iterator::open(link.as_fd()).unwrap();
            let mut buffer = vec![0; iterator::CHUNK / 1000 * 1000];
            let mut count = 0;
            loop {
                let bytes = iterator::read(&pass, &mut buffer).unwrap();
                let records = buffer[..bytes].chunks(1000);
                count += records.inspect(|record| assert_eq!(record[..8], 42u64.to_ne_bytes())).count();
                if bytes < buffer.len() {
                    return count;
                }
            }
        };
        with_threads(300, || assert!(count() > 300));
    }

    #[test]
    fn exits_are_recorded_until_the_ring_is_full_and_then_counted() {
        let Some(btf_id) = btf_id(TYPEDEF, "btf_trace_sched_process_exit") else { return };
        let spec = ProgramSpec { name: "test_exits", attach: Attach::Tracepoint, btf_id };
        let (Ok(mut ring), Ok(lost)) = (Ring::new(4096), SharedWords::new(1)) else {
            return skipped(Missing::Privilege("BPF maps"));
        };
        let Some(program) = loaded(&spec, &mut Layout::default(), |_| exit_program(&ring, &lost)) else { return };
        let link = attach_tracepoint(program.as_fd()).unwrap();
        // The ring has room for 4096 / 1008 records.
        with_threads(20, || ());
        let begin = Instant::now();
        while lost.get(0) < 16 && begin.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(lost.get(0) >= 16);
        drop(link);
        let mut poll = [nix::poll::PollFd::new(ring.map.as_fd(), nix::poll::PollFlags::POLLIN)];
        assert_eq!(nix::poll::poll(&mut poll, 0u8), Ok(1));
        let mut taken = 0;
        ring.take(|record| {
            assert_eq!((record.len(), &record[..8]), (1000, &7u64.to_ne_bytes()[..]));
            taken += 1;
        })
        .unwrap();
        assert_eq!(taken, 4);
    }

    fn exit_program(ring: &Ring, lost: &SharedWords) -> Assembled {
        let mut program = Assembler::default();
        let [end, full] = [program.label(), program.label()];
        program.load_map(R1, ring.map.as_raw_fd());
        program.mov_immediate(R2, 1000);
        program.mov_immediate(R3, 0);
        program.call(Helper::RingbufReserve);
        program.jump_if_equal(R0, 0, full);
        program.store_immediate(Width::U64, R0, 0, 7);
        program.mov(R1, R0);
        program.mov_immediate(R2, 0);
        program.call(Helper::RingbufSubmit);
        program.jump(end);
        program.place(full);
        element_of(&mut program, lost.map.as_fd());
        program.jump_if_equal(R0, 0, end);
        program.mov_immediate(R1, 1);
        program.atomic_add(R0, 0, R1);
        program.place(end);
        program.mov_immediate(R0, 0);
        program.exit();
        program.finish()
    }

    /// Columns 1, 3 and 4 are refused: beyond the structure, a function for other programs, a bad argument.
    fn some_refused(element: BorrowedFd<'_>, dropped: &BTreeSet<u16>) -> Assembled {
        iterator_program(element, 1000, |program| {
            for column in (0..6).filter(|column| !dropped.contains(column)) {
                program.mark(Some(column));
                match column {
                    1 => program.load(Width::U64, R0, R7, i16::MAX - 7),
                    3 => {
                        program.mov(R1, R8);
                        program.mov_immediate(R2, 0);
                        program.call(Helper::RingbufSubmit);
                    }
                    4 => {
                        program.mov(R1, R8);
                        program.mov_immediate(R2, 1001);
                        program.mov(R3, R7);
                        program.call(Helper::ProbeReadKernel);
                    }
                    _ => program.load(Width::U32, R0, R7, 16),
                }
            }
        })
    }

    #[test]
    fn columns_that_the_verifier_refuses_are_left_out() {
        let Some(spec) = task_iterator() else { return };
        let Ok(element) = map::per_cpu_array(1000) else { return skipped(Missing::Privilege("BPF maps")) };
        let mut layout = Layout::default();
        if loaded(&spec, &mut layout, |layout| some_refused(element.as_fd(), &layout.dropped)).is_some() {
            assert_eq!(layout.dropped, [1, 3, 4].into());
        }
    }

    #[test]
    fn a_program_that_is_refused_without_its_columns_is_an_error_with_the_reason() {
        let Some(spec) = task_iterator() else { return };
        let uninitialized = || {
            let mut program = Assembler::default();
            program.mark(Some(1));
            program.mov(R0, R9);
            program.exit();
            program.finish()
        };
        let mut rounds = 0;
        let result = load(&spec, &mut Layout::default(), |_| {
            rounds += 1;
            uninitialized()
        });
        let no_bpf = result.unwrap_err();
        if no_bpf.cause != BpfObstacle::Verifier {
            return skipped(Missing::Privilege(format!("BPF: {no_bpf:?}")));
        }
        assert_eq!(no_bpf.detail.as_deref(), Some("0: (bf) r0 = r9; R9 !read_ok"));
        assert_eq!(rounds, 2);
        let unknown = ProgramSpec { btf_id: u32::MAX >> 1, ..spec };
        assert!(
            load(&unknown, &mut Layout::default(), |_| uninitialized())
                .is_err_and(|no_bpf| no_bpf.cause != BpfObstacle::Verifier)
        );
    }

    #[test]
    fn the_log_of_the_verifier_has_the_lines_of_the_listing() {
        let Some(spec) = task_iterator() else { return };
        let Ok(element) = map::per_cpu_array(1000) else { return skipped(Missing::Privilege("BPF maps")) };
        let code = some_refused(element.as_fd(), &[1, 3].into());
        let mut log = vec![0; LOG_SIZE];
        program::load(&spec, &code.code, Some(&mut log)).expect_err("it is refused");
        let (log, listing) = (text(&log), listing(&code, |_| ""));
        let without_comment = |line: &str| line.split(';').next().unwrap().trim_end().to_owned();
        let same: Vec<_> = listing.lines().map(without_comment).filter(|line| log.contains(line.as_str())).collect();
        if log.is_empty() {
            return skipped(Missing::Kernel("a log of the verifier"));
        }
        // All up to the refused one, but for the map.
        assert_eq!(same.len(), VerifierRefusal::parse(&log).instruction.unwrap() - 1, "{same:#?}\n{log}");
    }
}

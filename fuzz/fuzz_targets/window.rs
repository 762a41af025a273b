//! The window between two snapshots that have nothing to do with each other, with records of exited threads:
//! it survives being written and read again, and is shown in every way. The first four bytes of the input say
//! where the second snapshot and the records begin; the records are the threads of a third snapshot.
#![no_main]

use ctprof::compare::{CompareOptions, Digest, GroupBy, Runs, Sides, ThreadTotals, report, show};
use ctprof::model::{ExitRecords, RecordedCommand, Threads};
use ctprof::window::{EarlierThreads, ExitedThread, Exits, JoinedValues, Recording, join, recorded};
use ctprof::{CtprofSnapshot, ThreadState};

mod formats;
mod stored;

/// A process of the inputs, or of none.
const RECORDER: u32 = 1;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let [low, high, low2, high2, rest @ ..] = input else { return };
    let (a, rest) = rest.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(rest.len()));
    let (b, records) = rest.split_at(usize::from(u16::from_le_bytes([*low2, *high2])).min(rest.len()));
    let (Some(a), Some(b)) = (stored::load(a).map(of_one_boot), stored::load(b).map(of_one_boot)) else { return };
    let records = stored::load(records).map(|snapshot| snapshot.threads).unwrap_or_default();
    let (a, b) = if uptime(&a) <= uptime(&b) { (a, b) } else { (b, a) };
    shown(a.clone(), b.clone(), &records);
    compared(a, b);
});

fn of_one_boot(mut snapshot: CtprofSnapshot) -> CtprofSnapshot {
    snapshot.head.window = None;
    let host = snapshot.head.host.get_or_insert_default();
    host.boot_id = Some("boot".to_owned());
    host.uptime_ns.get_or_insert_default();
    snapshot
}

fn uptime(snapshot: &CtprofSnapshot) -> Option<u64> {
    let exact = snapshot.head.capture.as_ref().and_then(|capture| capture.boottime_ns);
    exact.or_else(|| snapshot.head.host.as_ref()?.uptime_ns)
}

fn shown(earlier: CtprofSnapshot, later: CtprofSnapshot, records: &[ThreadState]) {
    let record = |thread: &ThreadState| {
        let ppid = thread.process.as_ref().and_then(|process| process.ppid).unwrap_or(RECORDER);
        let (started, elapsed) = (thread.read_at_ns.unwrap_or(0), thread.span.map_or(0, |span| span.alive_ns));
        ExitedThread {
            state: thread.clone(),
            ppid,
            started_monotonic_ns: started,
            elapsed_ns: elapsed,
            ..ExitedThread::default()
        }
    };
    let each = |add: &mut dyn FnMut(ExitedThread)| records.iter().map(record).for_each(add);
    let exits = Exits { summary: Some(ExitRecords::default()), each: Some(&each), ..Exits::default() };
    let command = (records.len() % 2 == 1).then(RecordedCommand::default);
    let recording = Recording { exits, recorder: Some(RECORDER), command, ..Recording::default() };
    let window = recorded(&earlier.head, EarlierThreads::of_threads(earlier.threads), later, recording)
        .expect("two captures of one boot");
    assert_eq!(stored::again(&window), window);
    for group_by in [GroupBy::Pcomm, GroupBy::All] {
        let mut options = CompareOptions::default();
        options.grouping.axis = group_by;
        formats::write_all(&show(&window, &options));
    }
}

/// As `ctprof compare` compares them: like for like.
fn compared(earlier: CtprofSnapshot, later: CtprofSnapshot) {
    let options = CompareOptions::default();
    let (threads, totals_of) = (EarlierThreads::of_threads(earlier.threads), ThreadTotals::new(&options, &[]));
    let join = join(&earlier.head, threads, &later.head, &totals_of, JoinedValues::Totals);
    let mut join = join.expect("two captures of one boot");
    later.threads.into_iter().for_each(|thread| join.add(thread));
    let ends = join.finish(&later.head, &Exits::default());
    let candidate = Digest::new(later.head, ends.threads).since_baseline(ends.window);
    let sides = Sides::two(Digest::new(earlier.head, ends.before), candidate).map(Runs::from);
    let comparison = report(sides, &options, &[]);
    formats::write_all(&comparison);
}

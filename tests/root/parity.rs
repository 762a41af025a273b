//! Equal values of all metrics.

use std::path::PathBuf;
use std::process::Command;

use crate::alone;
use crate::root::engine_captures::{Captures, has_bpf};
use crate::root::histories::{Histories, started};

fn heap() -> PathBuf {
    crate::example::example("heap")
}

#[test]
fn bpf_gives_the_values_of_procfs() {
    let _alone = alone();
    if !has_bpf() {
        return;
    }
    let histories = Histories::start(4, 3);
    let (heap, _) = started(&mut Command::new(heap()));
    // Others can change threads that this test has not started.
    let own: Vec<_> = histories.pids().chain([heap.0.id()]).collect();
    let captures = Captures::of_processes(&own);
    captures.compare(200);
    histories.check_traces(&captures.bpf);
}

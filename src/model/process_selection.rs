//! The processes that a recording is of.

use super::thread::start_ns;

/// Processes that were selected by their ids. After a process has exited, another one can get its id.
#[derive(Clone, Debug, Default)]
pub struct ProcessSelection {
    /// The ids; empty for all processes.
    pub pids: Vec<u32>,
    /// `CLOCK_BOOTTIME` after all selected processes had been found, in nanoseconds.
    pub found_at_ns: u64,
}

impl ProcessSelection {
    /// Whether it has the process with this id and this start, in ticks since boot: one that started later is not the one that was
    /// found. If the start is unknown, the id decides.
    pub fn has(&self, tgid: u32, started: Option<u64>) -> bool {
        let is_later = || started.and_then(start_ns).is_some_and(|started| started > self.found_at_ns);
        self.pids.is_empty() || self.pids.contains(&tgid) && !is_later()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_process_with_the_id_of_a_selected_one_is_not_selected() {
        let selected = ProcessSelection { pids: vec![5, 7], found_at_ns: 1_005_000_000 };
        let older_than_the_clock = u64::MAX / 10_000_000;
        let starts = [Some(100), Some(101), None, Some(older_than_the_clock)];
        assert_eq!(starts.map(|started| selected.has(7, started)), [true, false, true, true]);
        assert!(!selected.has(6, Some(100)));
        let all = ProcessSelection { pids: Vec::new(), ..selected };
        assert!(all.has(6, Some(101)), "all processes, also those that start later");
    }
}

//! The sections of a report, in display order.

use serde::Serialize;

named! {
    /// A section of a report.
    #[derive(Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Section {
        /// The sides of a report, differences between hosts, and warnings.
        Host = "host",
        /// Where the time of each group went, and its switches, faults and I/O.
        Overview = "overview",
        /// Why the threads of each group waited, and who ran meanwhile.
        Reasons = "reasons",
        /// Scheduler, memory and I/O counters of threads.
        Primary = "primary",
        /// Delay accounting of threads.
        TaskstatsDelay = "taskstats-delay",
        /// Averages and ratios of group totals.
        Derived = "derived",
        /// CPU, memory and threads of cgroups.
        CgroupStats = "cgroup-stats",
        /// Limits and weights of cgroups.
        CgroupLimits = "cgroup-limits",
        /// memory.stat of cgroups.
        MemoryStat = "memory-stat",
        /// memory.events of cgroups.
        MemoryEvents = "memory-events",
        /// io.stat of cgroups.
        IoStat = "io-stat",
        /// Pressure stall information of cgroups.
        Pressure = "pressure",
        /// Pressure of the host.
        HostPressure = "host-pressure",
        /// Memory of processes by kind; prefer Pss, Shared_* counts shared pages once per process.
        SmapsRollup = "smaps-rollup",
        /// State of the sched_ext scheduler.
        SchedExt = "sched-ext",
        /// How the captures were made, and what they could not read.
        Capture = "capture",
    }
}

impl Section {
    /// Whether it is about threads, including derived metrics.
    pub fn is_of_threads(self) -> bool {
        (Self::Primary..=Self::Derived).contains(&self)
    }

    /// Whether its groups have names of threads, processes or cgroups. The others have one group, of the host.
    pub fn has_named_groups(self) -> bool {
        matches!(self, Self::Overview | Self::Reasons | Self::SmapsRollup)
            || self.is_of_threads()
            || self.is_of_cgroups()
    }

    /// Whether it is about single cgroups.
    pub fn is_of_cgroups(self) -> bool {
        (Self::CgroupStats..=Self::Pressure).contains(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_of_threads_of_cgroups_of_processes_or_of_the_host() {
        let names = |is: fn(Section) -> bool| {
            Section::ALL.iter().copied().filter(|section| is(*section)).map(Section::name).collect::<Vec<_>>()
        };
        assert_eq!(names(Section::is_of_threads), ["primary", "taskstats-delay", "derived"]);
        let of_cgroups = ["cgroup-stats", "cgroup-limits", "memory-stat", "memory-events", "io-stat", "pressure"];
        assert_eq!(names(Section::is_of_cgroups), of_cgroups);
        let of_host = names(|section| !section.has_named_groups());
        assert_eq!(of_host, ["host", "host-pressure", "sched-ext", "capture"]);
    }
}

//! What a cgroup's files say. A file that is not there leaves its field absent.

use std::collections::BTreeMap;

use serde::de::{self, Deserializer, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::psi::Psi;

/// A bound that may be none: a number, or the kernel's word `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// The bound.
    Number(u64),
    /// `max`: no limit, or for a floor, everything.
    Max,
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Max => serializer.serialize_str("max"),
        }
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LimitVisitor)
    }
}

struct LimitVisitor;

impl Visitor<'_> for LimitVisitor {
    type Value = Limit;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number or \"max\"")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Limit, E> {
        Ok(Limit::Number(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Limit, E> {
        if text == "max" { Ok(Limit::Max) } else { Err(E::invalid_value(de::Unexpected::Str(text), &self)) }
    }
}

/// One cgroup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct CgroupStats {
    /// CPU.
    #[serde(skip_serializing_if = "is_empty")]
    pub cpu: CgroupCpuStats,
    /// Memory.
    #[serde(skip_serializing_if = "is_empty")]
    pub memory: CgroupMemoryStats,
    /// Processes and threads.
    #[serde(skip_serializing_if = "is_empty")]
    pub pids: CgroupPidsStats,
    /// Block I/O.
    #[serde(skip_serializing_if = "is_empty")]
    pub io: CgroupIoStats,
    /// Pressure.
    #[serde(skip_serializing_if = "is_empty")]
    pub psi: Psi,
}

fn is_empty<T: Default + PartialEq>(part: &T) -> bool {
    *part == T::default()
}

optional_record! {
    /// `cpu.stat`, `cpu.max`, `cpu.weight`.
    pub struct CgroupCpuStats {
        /// CPU time in microseconds.
        pub usage_usec: u64,
        /// User CPU time in microseconds.
        pub user_usec: u64,
        /// Kernel CPU time in microseconds.
        pub system_usec: u64,
        /// Periods in which the quota was in force.
        pub nr_periods: u64,
        /// Periods in which the quota ran out.
        pub nr_throttled: u64,
        /// Time throttled in microseconds.
        pub throttled_usec: u64,
        /// Quota a period, in microseconds.
        pub max_quota_us: Limit,
        /// Length of a period, in microseconds.
        pub max_period_us: u64,
        /// Share among siblings, 1 to 10,000; 0 for an idle group.
        pub weight: u64,
        /// The same as a nice value.
        pub weight_nice: i64,
    }
}

optional_record! {
    /// `memory.*`.
    pub struct CgroupMemoryStats {
        /// Bytes in use.
        pub current: u64,
        /// Most bytes ever in use.
        pub peak: u64,
        /// Bytes swapped out.
        pub swap_current: u64,
        /// Hard limit in bytes.
        pub max: Limit,
        /// Throttling limit in bytes.
        pub high: Limit,
        /// Best-effort protection in bytes.
        pub low: Limit,
        /// Hard protection in bytes.
        pub min: Limit,
        /// Limit of swap in bytes.
        pub swap_max: Limit,
        /// `memory.stat`: bytes and events.
        pub stat: BTreeMap<String, u64>,
        /// `memory.events`.
        pub events: BTreeMap<String, u64>,
    }
}

optional_record! {
    /// `pids.*`.
    pub struct CgroupPidsStats {
        /// Threads.
        pub current: u64,
        /// Limit of threads.
        pub max: Limit,
    }
}

optional_record! {
    /// `io.stat`.
    pub struct CgroupIoStats {
        /// By device, `major:minor`.
        pub stat: BTreeMap<String, BTreeMap<String, u64>>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_and_not_there_differ() {
        let json = r#"{"memory":{"max":"max","high":4096}}"#;
        let stats: CgroupStats = serde_json::from_str(json).unwrap();
        assert_eq!(
            (stats.memory.max, stats.memory.high, stats.memory.low),
            (Some(Limit::Max), Some(Limit::Number(4096)), None)
        );
        assert_eq!(serde_json::to_string(&stats).unwrap(), r#"{"memory":{"max":"max","high":4096}}"#);
        let error = serde_json::from_str::<CgroupStats>(r#"{"pids":{"max":"many"}}"#).unwrap_err().to_string();
        assert!(error.contains(r#"a number or "max""#), "{error}");
    }

    #[test]
    fn a_group_without_files_takes_no_room() {
        assert_eq!(serde_json::to_string(&CgroupStats::default()).unwrap(), "{}");
        let nulls = r#"{"cpu":{"usage_usec":null},"psi":{}}"#;
        assert_eq!(serde_json::from_str::<CgroupStats>(nulls).unwrap(), CgroupStats::default());
    }
}

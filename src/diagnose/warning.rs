//! Warnings of a comparison.

use std::collections::BTreeSet;

use super::note::prefix;
use super::{DataSource, Side};
use crate::model::sorted::CollectSorted;
use crate::model::{Census, SnapshotHead};

coded! {
    /// Why two snapshots may not be comparable.
    pub enum Warning {
        /// The candidate was captured before the baseline.
        CandidateOlder = "candidate-older", ("candidate is older than baseline; arguments swapped?");
        /// The host was booted in between: all counters started again at 0.
        DifferentBoot = "different-boot", ("different boot: counters were reset; deltas are not activity");
        /// The snapshots are from different hosts.
        DifferentHost { baseline: Option<String>, candidate: Option<String> } = "different-host",
            ("different host: {}", both(baseline, candidate));
        /// The sides ran different kernels.
        DifferentKernel { baseline: Option<String>, candidate: Option<String> } = "different-kernel",
            ("different kernel: {}", both(baseline, candidate));
        /// The sides ran on different architectures.
        DifferentArch { baseline: Option<String>, candidate: Option<String> } = "different-arch",
            ("different architecture: {}", both(baseline, candidate));
        /// The processors differ, so equal work takes different times.
        DifferentProcessor { baseline: Option<String>, candidate: Option<String> } = "different-processor",
            ("different processor (cpu_model): {}", both(baseline, candidate));
        /// The microcode of the processors differs, which can change times.
        DifferentMicrocode { baseline: String, candidate: String } = "different-microcode",
            ("different microcode: {baseline} → {candidate}");
        /// The sides ran under different hypervisors, or only one ran in a virtual machine.
        DifferentHypervisor { baseline: String, candidate: String } = "different-hypervisor",
            ("different hypervisor: {baseline} → {candidate}");
        /// The numbers of CPUs online differ.
        DifferentCpuCount { baseline: Option<String>, candidate: Option<String> } = "different-cpu-count",
            ("different number of CPUs: {}", both(baseline, candidate));
        /// The tick rates differ: values in ticks are not comparable.
        DifferentTickRate { baseline: Option<String>, candidate: Option<String> } = "different-tick-rate",
            ("different tick rate, ticks are not comparable: {}", both(baseline, candidate));
        /// Only one side has values from a source.
        OneSidedSource { source: DataSource, side: Side } = "one-sided-source", ("only the {} has values from {source}", side.name());
        /// The captures were made with different options, named as in the snapshot file.
        DifferentOptions { options: Vec<String> } = "different-options",
            ("captured with different options: {}", options.join(", "));
        /// The runs of a side are from different hosts, kernels, processors or numbers of CPUs.
        MixedRuns { side: Option<Side>, fields: Vec<String> } = "mixed-runs",
            ("{}the runs differ: {}", prefix(*side), fields.join("; "));
    }
}

fn both(baseline: &Option<String>, candidate: &Option<String>) -> String {
    let [baseline, candidate] = [baseline, candidate].map(|value| value.as_deref().unwrap_or("-"));
    format!("{baseline} → {candidate}")
}

impl Warning {
    /// The warning for a different field of the host context; `None` if the difference is harmless.
    pub fn for_host_field(field: &str, baseline: Option<String>, candidate: Option<String>) -> Option<Self> {
        Some(match field {
            "boot_id" => baseline.zip(candidate).map(|_| Self::DifferentBoot)?,
            "hostname" => Self::DifferentHost { baseline, candidate },
            "kernel_release" => Self::DifferentKernel { baseline, candidate },
            "arch" => Self::DifferentArch { baseline, candidate },
            "cpu_model" => Self::DifferentProcessor { baseline, candidate },
            // Captures of earlier versions do not say it.
            "cpu_microcode" => {
                baseline.zip(candidate).map(|(baseline, candidate)| Self::DifferentMicrocode { baseline, candidate })?
            }
            "hypervisor" => baseline
                .zip(candidate)
                .map(|(baseline, candidate)| Self::DifferentHypervisor { baseline, candidate })?,
            "online_cpus" => Self::DifferentCpuCount { baseline, candidate },
            "clock_ticks_per_second" => Self::DifferentTickRate { baseline, candidate },
            _ => return None,
        })
    }

    /// Sources with values on one side only, without those contained in another one. Where all threads have exited, nothing says
    /// which sources there were.
    pub(crate) fn one_sided_sources(baseline: &Census, candidate: &Census) -> Vec<Self> {
        if baseline.threads == 0 || candidate.threads == 0 {
            return Vec::new();
        }
        let sources = |census: &Census| census.present().map(DataSource::of_metric).collect();
        let (baseline, candidate): (BTreeSet<DataSource>, BTreeSet<DataSource>) =
            (sources(baseline), sources(candidate));
        let one_sided: BTreeSet<_> = baseline.symmetric_difference(&candidate).cloned().into_set();
        let is_implied = |source: &&DataSource| source.carrier().is_some_and(|carrier| one_sided.contains(&carrier));
        let side = |source: &DataSource| if baseline.contains(source) { Side::Baseline } else { Side::Candidate };
        let not_implied = one_sided.iter().filter(|source| !is_implied(source));
        not_implied.map(|source| Self::OneSidedSource { source: source.clone(), side: side(source) }).collect()
    }

    pub(crate) fn different_options(baseline: &SnapshotHead, candidate: &SnapshotHead) -> Option<Self> {
        let written = |snapshot: &SnapshotHead| {
            let options = &snapshot.capture.as_ref()?.options;
            serde_json::to_value(options).ok()?.as_object().cloned()
        };
        let are_windows = baseline.window.is_some() && candidate.window.is_some();
        let (baseline, candidate) = (written(baseline)?, written(candidate)?);
        let names: BTreeSet<&String> = baseline.keys().chain(candidate.keys()).into_set();
        // Engines differ in speed, not in the meaning of values. Of the parts of a series, only the last has smaps_rollup.
        let is_usual = |name: &str| name == "engine" || are_windows && name.starts_with("smaps");
        let differ = |name: &&String| !is_usual(name) && baseline.get(*name) != candidate.get(*name);
        let options: Vec<_> = names.into_iter().filter(differ).cloned().collect();
        (!options.is_empty()).then_some(Self::DifferentOptions { options })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CaptureInfo, CaptureOptions, ThreadState, WindowInfo};

    fn census(fill: impl Fn(&mut ThreadState)) -> Census {
        let mut thread = ThreadState::default();
        thread.metrics.minflt = Some(1.into());
        fill(&mut thread);
        Census::from_threads(&[thread])
    }

    #[test]
    fn a_source_that_only_one_side_has_is_named_with_the_side() {
        let bare = census(|_| {});
        let delays = census(|thread| thread.metrics.blkio_delay_count = Some(0.into()));
        let warnings = Warning::one_sided_sources(&bare, &delays);
        let text: Vec<_> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(text, ["only the candidate has values from delay accounting"]);
        assert_eq!(Warning::one_sided_sources(&delays, &delays), []);
        let exited = Census::default();
        let sides = [(&exited, &delays), (&delays, &exited)];
        assert!(sides.iter().all(|(one, other)| Warning::one_sided_sources(one, other).is_empty()), "all have exited");
        let taskstats = census(|thread| {
            thread.metrics.blkio_delay_count = Some(0.into());
            thread.metrics.cpu_delay_count = Some(0.into());
        });
        assert_eq!(Warning::one_sided_sources(&taskstats, &bare).len(), 1, "taskstats alone");
    }

    #[test]
    fn options_that_differ_are_named() {
        let captured = |options| {
            let capture = Some(CaptureInfo { options, ..CaptureInfo::default() });
            SnapshotHead { capture, ..SnapshotHead::default() }
        };
        let with_defaults = captured(CaptureOptions { smaps: "auto".to_owned(), ..CaptureOptions::default() });
        let other =
            captured(CaptureOptions { smaps: "never".to_owned(), no_taskstats: true, ..CaptureOptions::default() });
        let warning = Warning::different_options(&with_defaults, &other).unwrap();
        assert_eq!(warning.to_string(), "captured with different options: no_taskstats, smaps");
        assert_eq!(Warning::different_options(&with_defaults, &with_defaults), None);
        let mut windows = [with_defaults.clone(), other];
        windows.iter_mut().for_each(|head| head.window = Some(WindowInfo::default()));
        let warning = Warning::different_options(&windows[0], &windows[1]).unwrap();
        assert_eq!(warning.to_string(), "captured with different options: no_taskstats", "parts of a series");
        let by_bpf = CaptureOptions { smaps: "auto".to_owned(), engine: Some("bpf".to_owned()), ..Default::default() };
        assert_eq!(Warning::different_options(&with_defaults, &captured(by_bpf)), None);
    }

    #[test]
    fn warnings_have_a_code_and_a_message_in_json() {
        let json = serde_json::to_value(Warning::CandidateOlder).unwrap();
        let expected = "candidate is older than baseline; arguments swapped?";
        assert_eq!(json, serde_json::json!({"code": "candidate-older", "message": expected}));
    }
}

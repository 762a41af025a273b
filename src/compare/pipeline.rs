//! From digests to the sections of a report: groups, then the values of every group, on each side.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use super::{
    CgroupKeys, CompareOptions, Digest, GroupBy, GroupGlob, GroupTotals, GroupedReasons, Groups, Judge, Judged,
    KnownValues, Naming, NoSuchGroup, OVERVIEW, Per, Quantity, ReasonRows, Renamed, ReportSection, Row, RowRuns,
    SectionRuns, SideSection, Sides, ThreadNames, Times, Wanted, captures, group, number, overview, reasons, records,
    smaps,
};
use crate::diagnose::Side;
use crate::model::{Cell, Psi, Reasons, SchedExtSysfs, Section, SnapshotHead};
use crate::statistics::Design;

pub(super) struct Captures {
    pub(super) sides: Sides<GroupedSide>,
    pub(super) too_large: OnceLock<TooManyRows>,
    cgroups: CgroupKeys,
    pub(super) design: Design,
    reason_rows: ReasonRows,
}

pub(super) struct GroupedSide {
    side: Side,
    is_compared: bool,
    pub(super) digests: Vec<Digest>,
    groups: Vec<Groups>,
    /// The reasons of each capture; `None` without samples.
    reasons: Vec<Option<GroupedReasons>>,
}

/// What the values of a section depend on besides the captures of a side.
struct SectionContext<'c> {
    cgroups: &'c CgroupKeys,
    reasons: Wanted<'c>,
    per: Per,
    options: &'c CompareOptions,
    judged: Judged,
}

/// A report has more rows than fit its memory: the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the report has more than {0} rows; select some with --only, --sections or --metrics, or raise --max-snapshot-bytes"
)]
pub struct TooManyRows(usize);

impl Captures {
    /// Groups every capture. The keys of names depend on the names of all captures together.
    pub(super) fn new(digests: Sides<Vec<Digest>>, design: Design, options: &CompareOptions) -> Self {
        let names = || digests.iter().flatten().flat_map(|digest| digest.threads.by_names.keys());
        let sampled = || digests.iter().flatten().filter_map(|digest| digest.head.reasons.as_deref());
        let named = || names().map(|names| (&*names.process, &*names.thread)).chain(sampled().flat_map(reasons::names));
        let (processes, threads) = (named().map(|(process, _)| process), named().map(|(_, thread)| thread));
        let (process, thread) = (&group::keys(processes, options), &group::keys(threads, options));
        let programs = names().filter_map(|names| names.program.as_deref());
        let program = &group::keys(programs, options);
        let tasks = digests.as_ref().map(|side| side.iter().flat_map(|digest| tasks(digest, options)).collect());
        let recorded = digests.iter().flatten().flat_map(|digest| digest.head.cgroup_stats.keys());
        let containers = digests.iter().flatten().flat_map(|digest| &digest.head.containers);
        let containers = containers.map(|(path, container)| (path.as_str(), container)).collect();
        let cgroups = CgroupKeys::learn(&tasks, recorded.map(String::as_str), &containers, options);
        let is_compared = digests.candidate.is_some();
        let sides = digests.zip(Sides::two(Side::Baseline, Side::Candidate));
        let mut sides = sides.par_map(|(mut digests, side)| {
            let naming = Naming { by: options.group_by, process, program, thread, cgroups: &cgroups, side };
            let threads = digests.iter_mut().map(|digest| std::mem::take(&mut digest.threads.by_names));
            let groups = threads.map(|by_names| group::groups(by_names, &naming)).collect();
            let reasons = digests.iter().map(|Digest { head, threads, .. }| {
                Some(reasons::grouped(head.reasons.as_deref()?, threads, &naming, options))
            });
            GroupedSide { groups, reasons: reasons.collect(), side, is_compared, digests }
        });
        let mut all: Vec<_> = sides.as_mut().into_iter().flat_map(|side| &mut side.groups).collect();
        if options.group_by == GroupBy::All {
            group::drop_only_children(&mut all, options);
        }
        all.into_iter().for_each(|groups| group::add_total(groups, options));
        let reasons = sides.as_ref().map(|side| side.reasons.iter().flatten().collect());
        let passes = |side: &GroupedSide| {
            let sampled = side.digests.iter().filter_map(|digest| digest.head.reasons.as_ref());
            sampled.fold(0, |all: u64, reasons| all.saturating_add(reasons.sampling.passes))
        };
        let passes = sides.iter().map(passes).max().unwrap_or(0);
        let reason_rows = reasons::rows(&reasons, passes, options);
        Self { sides, too_large: OnceLock::new(), cgroups, design, reason_rows }
    }

    pub(super) fn are_repeated(&self) -> bool {
        self.sides.iter().any(|side| side.digests.len() > 1)
    }

    /// The sections that the options select, of each side.
    pub(super) fn sections(&self, per: Per, options: &CompareOptions, judged: Judged) -> Vec<ReportSection> {
        let max_rows = options.max_bytes.map_or(usize::MAX, |bytes| bytes / self.bytes_per_row());
        let reasons = self.wanted_reasons(options);
        let context = &SectionContext { cgroups: &self.cgroups, reasons, per, options, judged };
        let mut rows = 0;
        // One after the other: the values of both sides are only needed until a section has its rows.
        let table = |section: Section| {
            if rows + self.fewest_rows(section, options) > max_rows {
                self.too_large.get_or_init(|| TooManyRows(max_rows));
                return None;
            }
            let sides = self.sides.as_ref().par_map(|side| context.section(side, section));
            sides.iter().flatten().next()?;
            let keys = if is_sorted(section) { &options.sort_by[..] } else { &[] };
            let mut groups = sides.map(Option::unwrap_or_default);
            let known = groups.as_mut().map(|(_, known)| std::mem::take(known));
            let mut groups = groups.map(|(groups, _)| groups);
            if section == Section::Overview {
                overview::remove_minor_exits(&mut groups);
            }
            let judge = Judge { judged, known, design: self.design, threshold: options.threshold };
            let mut table = ReportSection::new(section, groups, keys, &judge);
            let is_by_cgroup = is_sorted(section) || section.is_of_cgroups();
            for group in table.groups.iter_mut().filter(|_| is_by_cgroup) {
                group.renamed = group.key.first().is_some_and(|cgroup| self.cgroups.is_renamed(cgroup));
                let cgroup = if let [cgroup] = &group.key[..] { Some(cgroup) } else { None };
                group.cgroups = cgroup.filter(|_| is_sorted(section)).and_then(|cgroup| self.cgroups.count(cgroup));
            }
            rows += table.rows.len();
            Some(table)
        };
        Section::ALL.iter().copied().filter(|section| options.wants(*section)).filter_map(table).collect()
    }

    /// Names that no reason has are no rows, so that they are not taken for reasons that take no time.
    fn wanted_reasons<'w>(&'w self, options: &'w CompareOptions) -> Wanted<'w> {
        if options.reason_sums.is_empty() {
            return Wanted::Rows(&self.reason_rows);
        }
        let reasons = || self.reason_rows.values().flat_map(BTreeMap::keys);
        Wanted::Sums(options.reason_sums.iter().filter(|name| reasons().any(|reason| name.is_of(reason))).collect())
    }

    /// What a row takes: itself, its values of each run, and its texts in tables.
    fn bytes_per_row(&self) -> usize {
        let runs: usize = self.sides.iter().map(|side| side.digests.len()).sum();
        let of_runs = if self.are_repeated() { size_of::<RowRuns>() + 2 * size_of::<f64>() * runs } else { 0 };
        2 * size_of::<Row>() + 128 + of_runs
    }

    /// A lower bound on the number of rows of a section, known before they are made.
    fn fewest_rows(&self, section: Section, options: &CompareOptions) -> usize {
        let groups = self.sides.iter().flat_map(|side| &side.groups).map(BTreeMap::len).max().unwrap_or(0);
        match section {
            Section::Overview => groups * OVERVIEW.len(),
            Section::Reasons => self.reason_rows.values().map(BTreeMap::len).sum(),
            section => groups * group::quantities(section, options).count(),
        }
    }

    /// The renamed cgroups among the reported groups.
    pub(super) fn renamed(&self, options: &CompareOptions) -> Vec<Renamed> {
        let is_wanted = |pair: &&Renamed| options.wants_group(std::slice::from_ref(&pair.baseline));
        self.cgroups.list.iter().filter(is_wanted).cloned().collect()
    }

    /// The selections of groups that match none, of threads or of cgroups.
    pub(super) fn unmatched(&self, options: &CompareOptions) -> Vec<NoSuchGroup> {
        if options.only.is_empty() {
            return Vec::new();
        }
        let mut names: BTreeSet<String> = BTreeSet::new();
        for GroupedSide { digests, groups, side, .. } in self.sides.iter() {
            names.extend(groups.iter().flat_map(Groups::keys).flatten().cloned());
            if options.group_by.is_by_cgroup() {
                let paths = digests.iter().flat_map(|digest| digest.head.cgroup_stats.keys());
                names.extend(paths.map(|path| self.cgroups.key(*side, path)));
            }
        }
        let is_unmatched = |glob: &&GroupGlob| !names.iter().any(|name| glob.is_match(name));
        let unmatched = options.only.iter().filter(is_unmatched);
        unmatched.map(|glob| NoSuchGroup::new("group", glob, names.iter().map(String::as_str))).collect()
    }
}

/// The names of all threads of a digest, which tell cgroups that have another name in the candidate.
fn tasks<'d>(digest: &'d Digest, options: &CompareOptions) -> Vec<&'d ThreadNames> {
    match options.group_by {
        GroupBy::Cgroup => digest.threads.tasks.iter().collect(),
        _ => digest.threads.by_names.keys().collect(),
    }
}

impl SectionContext<'_> {
    /// A section of a side, and which values each of its runs has; `None` if no run has the section. Of several runs,
    /// each is reduced when its turn comes.
    fn section(&self, side: &GroupedSide, section: Section) -> Option<(SideSection, KnownValues)> {
        let mut runs = (0..side.digests.len()).map(|run| self.of_run(side, section, run));
        let sampled: Vec<bool> = side.reasons.iter().map(Option::is_some).collect();
        let of_reasons = |known: &mut KnownValues| {
            if section == Section::Reasons {
                known.add_all(&sampled, reasons::row_names(&self.reasons));
            }
        };
        if self.judged == Judged::No {
            let groups = runs.next()??;
            let mut known = KnownValues::of_runs(1);
            // What any group has, all together have.
            let all = groups.get(&[][..]).into_iter().flat_map(|all| &all.measurements);
            all.filter(|measured| measured.cell.is_some()).for_each(|measured| known.add(0, measured));
            of_reasons(&mut known);
            return Some((self.wanted_groups(section, groups), known));
        }
        let mut all = SectionRuns::new(side.digests.len());
        of_reasons(&mut all.known);
        for (run, groups) in runs.enumerate() {
            let groups = groups?;
            all.know(run, &groups);
            all.add(run, self.wanted_groups(section, groups));
        }
        Some(all.merged(if is_sorted(section) { &self.options.sort_by } else { &[] }))
    }

    fn of_run(&self, side: &GroupedSide, section: Section, run: usize) -> Option<SideSection> {
        let (Digest { head, threads, .. }, totals) = (&side.digests[run], &side.groups[run]);
        let mut groups = match section {
            section if section.is_of_threads() => group::section(head, section, totals, self.options),
            section if section.is_of_cgroups() && self.options.group_by.is_by_cgroup() => {
                records::cgroup_section(head, section, |path| self.cgroups.key(side.side, path), self.options)
            }
            Section::Overview => overview::section(head, totals, self.per),
            Section::Reasons => {
                let sampled = head.reasons.as_deref().zip(side.reasons[run].as_ref());
                let of_samples = |(sampled, grouped): (&Reasons, _)| {
                    let overview = overview::section(head, totals, Per::Run);
                    reasons::section(overview, grouped, sampled.sampling.period_ns, &self.reasons)
                };
                sampled.map(of_samples).unwrap_or_default()
            }
            Section::HostPressure => records::host_section("host", head.psi.as_ref().map(Psi::values)),
            Section::SchedExt => {
                let values = head.sched_ext.as_ref().map(SchedExtSysfs::values);
                records::host_section("sched_ext", values)
            }
            Section::SmapsRollup => smaps::section(&threads.memory, self.options),
            Section::Capture => captures::section(head),
            _ => return None,
        };
        let is_divided = side.is_compared || section == Section::Reasons;
        let seconds = overview::seconds(head, totals, self.per).filter(|_| is_divided);
        if is_sorted(section) {
            self.add_sort_values(&mut groups, section, (head, totals), seconds);
        }
        // All rises of counters in the one unit of a comparison. Other values stay.
        if let Some(seconds) = seconds {
            let measurements = groups.values_mut().flat_map(|group| &mut group.measurements);
            measurements.for_each(|measured| measured.per_second(seconds));
        }
        Some(groups)
    }

    /// What the groups of a section are sorted by: the values that it shows. Exited work has none.
    fn add_sort_values(
        &self,
        groups: &mut SideSection,
        section: Section,
        (head, totals): (&SnapshotHead, &Groups),
        seconds: Option<f64>,
    ) {
        let cpu_time = overview::cpu_time(totals);
        for key in &self.options.sort_by {
            let by = if section == Section::Overview { key.by.in_overview() } else { key.by };
            let value = |members: &GroupTotals| {
                if let Quantity::Column(column) = by {
                    return Times::new(head, members, self.per, cpu_time).shown(column, &members.totals);
                }
                let cell = group::cell(by, members, head.taskstats_version());
                let rate = |seconds: f64| Some(Cell::Ratio(number(cell.as_ref()?)? / seconds));
                seconds.filter(|_| by.is_increase()).map_or(cell.clone(), rate)
            };
            for (path, group) in &mut *groups {
                group.sort_values.push(totals.get(path).and_then(&value));
            }
        }
    }

    fn wanted_groups(&self, section: Section, mut groups: SideSection) -> SideSection {
        if section.has_named_groups() {
            groups.retain(|key, _| key.is_empty() || self.options.wants_group(key));
        }
        groups
    }
}

/// Whether groups of a section can be sorted by quantities of threads.
fn is_sorted(section: Section) -> bool {
    matches!(section, Section::Overview | Section::Reasons) || section.is_of_threads()
}

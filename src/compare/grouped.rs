//! Sections of a report from digests: groups, then the values of every group, on each side.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use super::group::cpu_time;
use super::measure::GroupContext;
use super::{
    CgroupKeys, CompareOptions, Digest, Divisor, GroupBy, GroupGlob, GroupKeys, GroupedReasons, Groups, HALTED, Judge,
    KnownValues, NoSuchGroup, OVERVIEW, Per, Quantity, ReasonName, ReasonRows, Renamed, ReportSection, Row, RowRuns,
    SectionRuns, SideSection, Sides, SortKey, Wanted, ZOMBIE, captures, group, halted, includes_group, overview,
    reasons, records,
};
use crate::diagnose::Side;
use crate::model::{Psi, Reasons, SchedExtSysfs, Section, SnapshotHead};
use crate::statistics::Design;

/// The captures of all sides in groups, which sections, gates, why lines and notes ask for values.
pub(super) struct Grouped {
    pub(super) sides: Sides<GroupedSide>,
    pub(super) too_large: OnceLock<TooManyRows>,
    keys: GroupKeys,
    pub(super) judge: Judge,
    reason_rows: ReasonRows,
    max_bytes: Option<usize>,
}

/// A section of a report, and which of its values are asked for.
#[derive(Clone, Copy)]
pub(super) struct Query<'q> {
    pub(super) section: Section,
    pub(super) per: Per,
    /// The values of threads; empty for all.
    pub(super) quantities: &'q [Quantity],
    /// The names whose reasons are added up, instead of a row for each reason; empty for the rows.
    pub(super) reason_sums: &'q [ReasonName],
    /// The groups, but for the overview and the reasons, whose groups are ranked and explained among all; empty for all.
    pub(super) only: &'q [GroupGlob],
    pub(super) sort_by: &'q [SortKey],
}

impl<'q> Query<'q> {
    /// All values of all groups, in the order of the largest change.
    pub(super) fn all(section: Section, per: Per) -> Self {
        Self { section, per, quantities: &[], reason_sums: &[], only: &[], sort_by: &[] }
    }
}

pub(super) struct GroupedSide {
    side: Side,
    is_by_cgroup: bool,
    /// How many units of work each of its captures is of, if that was said.
    units: Option<f64>,
    pub(super) digests: Vec<Digest>,
    groups: Vec<Groups>,
    /// The reasons of each capture; `None` without samples.
    reasons: Vec<Option<GroupedReasons>>,
}

/// Context of a section: what its values depend on besides the captures of a side.
struct SectionContext<'c> {
    query: Query<'c>,
    cgroups: &'c CgroupKeys,
    reasons: Wanted<'c>,
}

/// A report has more rows than fit its memory: the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the report has more than {0} rows; select some with --only, --sections or --metrics, or raise --max-snapshot-bytes"
)]
pub struct TooManyRows(usize);

impl Grouped {
    /// Groups every capture. The keys of names depend on the names of all captures together.
    pub(super) fn new(digests: Sides<Vec<Digest>>, design: Design, options: &CompareOptions) -> Self {
        let grouping = &options.grouping;
        let keys = GroupKeys::learn(&digests, grouping);
        let is_by_cgroup = grouping.axis.is_by_cgroup();
        let sides = digests.zip(Sides::two(Side::Baseline, Side::Candidate));
        let mut sides = sides.par_map(|(mut digests, side)| {
            let naming = keys.naming(grouping.axis, side);
            let reasons = digests
                .iter()
                .map(|Digest { head, threads, .. }| {
                    Some(reasons::grouped(head, head.reasons.as_deref()?, threads, &naming))
                })
                .collect();
            let threads = digests.iter_mut().map(|Digest { head, threads, .. }| {
                head.reasons.iter().for_each(|reasons| reasons::tell_longest_waits(threads, reasons));
                std::mem::take(&mut threads.by_names)
            });
            let groups = threads.map(|by_names| group::groups(by_names, &naming)).collect();
            let units = grouping.units.map(|units| units.on_side(side));
            GroupedSide { groups, reasons, side, is_by_cgroup, units, digests }
        });
        let mut all: Vec<_> = sides.as_mut().into_iter().flat_map(|side| &mut side.groups).collect();
        if grouping.axis == GroupBy::All {
            group::drop_only_children(&mut all, &options.selection.only);
        }
        all.into_iter().for_each(group::add_total);
        for side in sides.as_mut() {
            for ((groups, reasons), digest) in side.groups.iter_mut().zip(&side.reasons).zip(&side.digests) {
                reasons.iter().for_each(|reasons| halted::tell(groups, reasons, &digest.head));
            }
        }
        let reasons = sides.as_ref().map(|side| side.reasons.iter().flatten().collect());
        let passes = |side: &GroupedSide| {
            let sampled = side.digests.iter().filter_map(|digest| digest.head.reasons.as_ref());
            sampled.fold(0, |all: u64, reasons| all.saturating_add(reasons.sampling.passes))
        };
        let passes = sides.iter().map(passes).max().unwrap_or(0);
        let reason_rows = reasons::rows(&reasons, passes, options);
        let judge = Judge { design, threshold: options.threshold, tail: options.tail };
        Self { sides, too_large: OnceLock::new(), keys, judge, reason_rows, max_bytes: options.max_bytes }
    }

    pub(super) fn are_repeated(&self) -> bool {
        self.sides.iter().any(|side| side.digests.len() > 1)
    }

    /// Returns the sections of these queries, in their order; `None` for sections that no capture has.
    pub(super) fn sections<'q>(&self, queries: impl Iterator<Item = Query<'q>>) -> Vec<Option<ReportSection>> {
        let max_rows = self.max_bytes.map_or(usize::MAX, |bytes| bytes / self.bytes_per_row());
        let mut rows = 0;
        // One after the other: the values of both sides are only needed until a section has its rows.
        let table = |query: Query<'_>| {
            if rows + self.fewest_rows(query) > max_rows {
                self.too_large.get_or_init(|| TooManyRows(max_rows));
                return None;
            }
            let table = self.section(query)?;
            rows += table.rows.len();
            Some(table)
        };
        queries.map(table).collect()
    }

    pub(super) fn section(&self, query: Query<'_>) -> Option<ReportSection> {
        let section = query.section;
        let context =
            SectionContext { query, cgroups: &self.keys.cgroups, reasons: self.wanted_reasons(query.reason_sums) };
        let sides = self.sides.as_ref().par_map(|side| context.section(side));
        sides.iter().flatten().next()?;
        let keys = if is_sorted(section) { query.sort_by } else { &[] };
        let mut sides = sides.map(Option::unwrap_or_default);
        if section == Section::Overview {
            overview::remove_minor_exits(sides.as_mut().map(|side| &mut side.groups));
        }
        let mut table = ReportSection::new(section, sides, keys, self.judge);
        let is_by_cgroup = is_sorted(section) || section.is_of_cgroups();
        for group in table.groups.iter_mut().filter(|_| is_by_cgroup) {
            group.renamed = group.key.first().is_some_and(|cgroup| self.keys.cgroups.is_renamed(cgroup));
            let cgroup = if let [cgroup] = &group.key[..] { Some(cgroup) } else { None };
            group.cgroups = cgroup.filter(|_| is_sorted(section)).and_then(|cgroup| self.keys.cgroups.count(cgroup));
        }
        Some(table)
    }

    /// Names that no reason has are no rows, so that they are not taken for reasons that take no time.
    fn wanted_reasons<'w>(&'w self, sums: &'w [ReasonName]) -> Wanted<'w> {
        if sums.is_empty() {
            return Wanted::Rows(&self.reason_rows);
        }
        let reasons = || self.reason_rows.values().flat_map(BTreeMap::keys);
        Wanted::Sums(sums.iter().filter(|name| reasons().any(|reason| name.is_of(reason))).collect())
    }

    /// Returns the size of a row in memory: its own, its values of each run, and its texts in tables.
    fn bytes_per_row(&self) -> usize {
        let runs: usize = self.sides.iter().map(|side| side.digests.len()).sum();
        let of_runs = if self.are_repeated() { size_of::<RowRuns>() + 2 * size_of::<f64>() * runs } else { 0 };
        2 * size_of::<Row>() + 128 + of_runs
    }

    /// A lower bound on the number of rows of a section, known before they are made.
    fn fewest_rows(&self, query: Query<'_>) -> usize {
        let groups = self.sides.iter().flat_map(|side| &side.groups).map(BTreeMap::len).max().unwrap_or(0);
        match query.section {
            Section::Overview => groups * OVERVIEW.iter().filter(|column| !column.is_rare()).count(),
            Section::Reasons => self.reason_rows.values().map(BTreeMap::len).sum(),
            section => groups * group::quantities(section, query.quantities).count(),
        }
    }

    /// The renamed cgroups among the reported groups.
    pub(super) fn renamed(&self, only: &[GroupGlob]) -> Vec<Renamed> {
        let is_wanted = |pair: &&Renamed| includes_group(only, std::slice::from_ref(&pair.baseline));
        self.keys.cgroups.list.iter().filter(is_wanted).cloned().collect()
    }

    /// The selections of groups that match none, of threads or of cgroups.
    pub(super) fn unmatched(&self, only: &[GroupGlob]) -> Vec<NoSuchGroup> {
        if only.is_empty() {
            return Vec::new();
        }
        let mut names: BTreeSet<String> = BTreeSet::new();
        for GroupedSide { digests, groups, side, is_by_cgroup, .. } in self.sides.iter() {
            names.extend(groups.iter().flat_map(Groups::keys).flatten().cloned());
            if *is_by_cgroup {
                let paths = digests.iter().flat_map(|digest| digest.head.listed_cgroups()).map(|(path, _)| path);
                names.extend(paths.map(|path| self.keys.cgroups.key(*side, path)));
            }
        }
        let is_unmatched = |glob: &&GroupGlob| !names.iter().any(|name| glob.is_match(name));
        let unmatched = only.iter().filter(is_unmatched);
        unmatched.map(|glob| NoSuchGroup::new("group", glob, names.iter().map(String::as_str))).collect()
    }
}

impl SectionContext<'_> {
    /// The section of a side; `None` if no run has it.
    fn section(&self, side: &GroupedSide) -> Option<SectionRuns> {
        let Query { section, only, sort_by, .. } = self.query;
        let mut runs_with_values = KnownValues::of_runs(side.digests.len());
        let sampled: Vec<bool> = side.reasons.iter().map(Option::is_some).collect();
        if section == Section::Overview {
            let are_windows: Vec<bool> = side.digests.iter().map(|digest| digest.head.window.is_some()).collect();
            runs_with_values.add_all(&are_windows, [ZOMBIE.to_owned()]);
            runs_with_values.add_all(&sampled, HALTED.map(str::to_owned));
        }
        if section == Section::Reasons {
            runs_with_values.add_all(&sampled, reasons::row_names(&self.reasons));
        }
        let are_all_wanted = !section.has_named_groups() || matches!(section, Section::Overview | Section::Reasons);
        let is_wanted = |key: &[String]| are_all_wanted || key.is_empty() || includes_group(only, key);
        let runs = (0..side.digests.len()).map(|run| self.of_run(side, run));
        SectionRuns::new(runs_with_values, runs, is_wanted, if is_sorted(section) { sort_by } else { &[] })
    }

    fn of_run(&self, side: &GroupedSide, run: usize) -> Option<SideSection> {
        let Query { section, per, quantities, .. } = self.query;
        let (Digest { head, .. }, totals) = (&side.digests[run], &side.groups[run]);
        let mut groups = match section {
            section if section.is_of_threads() => {
                let values: Vec<_> = group::quantities(section, quantities).collect();
                group::section(head, totals, per, &values)
            }
            section if section.is_of_cgroups() && side.is_by_cgroup => {
                records::cgroup_section(head, section, (self.cgroups, side.side))
            }
            Section::Overview => overview::section(head, totals, per),
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
            Section::SmapsRollup => group::memory_section(totals),
            Section::Capture => captures::section(head),
            _ => return None,
        };
        let divisor = match per {
            Per::Unit => side.units.map(Divisor::Units),
            _ => overview::seconds(head, totals, per).map(Divisor::Seconds),
        };
        if is_sorted(section) {
            self.add_sort_values(&mut groups, (head, totals), divisor);
        }
        // All rises of counters in the one unit of a comparison. Other values stay.
        if let Some(divisor) = divisor {
            let measurements = groups.values_mut().flat_map(|group| &mut group.measurements);
            measurements.for_each(|measured| measured.divide(divisor));
        }
        Some(groups)
    }

    /// Adds the values by which the groups of a section are sorted: the values that it shows. Exited work has none.
    fn add_sort_values(
        &self,
        groups: &mut SideSection,
        (head, totals): (&SnapshotHead, &Groups),
        divisor: Option<Divisor>,
    ) {
        let cpu_time = cpu_time(totals);
        for (path, group) in &mut *groups {
            let of = totals.get(path).map(|members| GroupContext::new(head, members, self.query.per, cpu_time));
            let value = |key: &SortKey| {
                let by = if self.query.section == Section::Overview { key.by.in_overview() } else { key.by };
                let mut measured = by.measure(of.as_ref()?);
                divisor.iter().for_each(|divisor| measured.divide(*divisor));
                measured.cell
            };
            group.sort_values.extend(self.query.sort_by.iter().map(value));
        }
    }
}

/// Whether groups of a section can be sorted by quantities of threads.
fn is_sorted(section: Section) -> bool {
    matches!(section, Section::Overview | Section::Reasons) || section.is_of_threads()
}

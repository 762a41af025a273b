//! Matches cgroups that exist in one snapshot only, by the kinds of their threads.
//!
//! Comparing all pairs would be quadratic, and snapshots are untrusted. Cgroups with the same kinds are
//! one class. Two classes that are similar enough share one of their rarest kinds (prefix filtering:
//! Bayardo, Ma and Srikant, "Scaling Up All Pairs Similarity Search"), and each class is compared with a
//! limited number of others.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use serde::Serialize;

use crate::model::sorted::Arrange;
use crate::names::cgroup_pattern;

/// A cgroup that was renamed in the candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Renamed {
    /// The name in the baseline, which reports show.
    pub(crate) baseline: String,
    pub(crate) candidate: String,
    /// The similarity of their threads, from 0 to 1: shared kinds divided by all kinds. A kind is the
    /// pattern of a process name with the pattern of a thread name.
    pub(crate) similarity: f64,
}

/// Minimum similarity to match two cgroups, in tenths: shared kinds of threads divided by all kinds.
const ALIKE_TENTHS: usize = 9;
const ALIKE: f64 = ALIKE_TENTHS as f64 / 10.0;
/// Minimum number of shared kinds, so that similarity is not a coincidence.
const TELLING: usize = 3;
/// Maximum number of classes that a class is compared with, from the class with its rarest kinds on.
const MOST_COMPARED: usize = 64;

/// The numbers of the patterns of a process name and a thread name.
pub(super) type ThreadKind = (u32, u32);
/// The kinds of threads in each cgroup of a snapshot.
pub(super) type Kinds = BTreeMap<String, BTreeSet<ThreadKind>>;

/// Matches cgroups one to one, the most similar first, equal ones in the order of their names. Children
/// follow their parents.
pub(super) fn renamed(baseline: &Kinds, candidate: &Kinds) -> Vec<Renamed> {
    let mut classes = Classes::new(baseline, candidate);
    let mut pairs = Vec::new();
    classes.pair(&classes.identical(), 1.0, &mut pairs);
    let similar = classes.similar();
    for level in similar.chunk_by(|a, b| a.similarity.total_cmp(&b.similarity).is_eq()) {
        classes.pair(level, level[0].similarity, &mut pairs);
    }
    pairs.extend(children(baseline, candidate, &pairs));
    pairs
}

fn only_in<'k>(side: &'k Kinds, other: &Kinds) -> impl Iterator<Item = (&'k str, Vec<ThreadKind>)> {
    let missing = side.iter().filter(|(name, _)| !other.contains_key(*name));
    missing.map(|(name, kinds)| (name.as_str(), kinds.iter().copied().collect()))
}

/// Cgroups with the same kinds of threads and, if these are few, the same last name.
#[derive(Default)]
struct CgroupClass<'k> {
    /// Kinds of threads, in ascending order.
    kinds: Vec<ThreadKind>,
    /// Unmatched cgroups of the baseline only, by name.
    baseline_only: VecDeque<&'k str>,
    /// Unmatched cgroups of the candidate only.
    candidate_only: VecDeque<&'k str>,
}

/// Two classes whose members may be matched.
struct Candidates {
    similarity: f64,
    baseline_class: usize,
    candidate_class: usize,
}

#[derive(Default)]
struct Classes<'k> {
    classes: Vec<CgroupClass<'k>>,
    /// Indices by kinds and, if these are few, the pattern of the last name.
    class_indices: HashMap<(Vec<ThreadKind>, Option<String>), usize>,
    /// How many pairs of classes have been compared.
    compared: usize,
}

impl<'k> Classes<'k> {
    fn new(baseline: &'k Kinds, candidate: &'k Kinds) -> Self {
        let mut classes = Self::default();
        only_in(baseline, candidate)
            .for_each(|(name, kinds)| classes.class_for(name, kinds).baseline_only.push_back(name));
        only_in(candidate, baseline)
            .for_each(|(name, kinds)| classes.class_for(name, kinds).candidate_only.push_back(name));
        classes
    }

    /// The class of a cgroup with these kinds.
    fn class_for(&mut self, name: &str, kinds: Vec<ThreadKind>) -> &mut CgroupClass<'k> {
        let leaf = (kinds.len() < TELLING).then(|| cgroup_pattern(name.rsplit('/').next().unwrap_or(name)));
        let place = *self.class_indices.entry((kinds.clone(), leaf)).or_insert(self.classes.len());
        if place == self.classes.len() {
            self.classes.push(CgroupClass { kinds, ..CgroupClass::default() });
        }
        &mut self.classes[place]
    }

    fn identical(&self) -> Vec<Candidates> {
        (0..self.classes.len())
            .map(|class| Candidates { similarity: 1.0, baseline_class: class, candidate_class: class })
            .collect()
    }

    /// The classes that are similar but not identical, the most similar first.
    fn similar(&mut self) -> Vec<Candidates> {
        // With enough kinds to be similar to a class with another kind.
        let can_differ = |class: &CgroupClass<'_>| least_shared(class.kinds.len() + 1) <= class.kinds.len();
        let is_open = |class: &CgroupClass<'_>| {
            can_differ(class) && !(class.baseline_only.is_empty() && class.candidate_only.is_empty())
        };
        let open: Vec<_> = self.classes.iter().enumerate().filter(|(_, class)| is_open(class)).collect();
        let mut frequency: HashMap<ThreadKind, usize> = HashMap::new();
        open.iter().flat_map(|(_, class)| &class.kinds).for_each(|kind| *frequency.entry(*kind).or_default() += 1);
        let rarest = |class: &CgroupClass<'_>| rarest(&class.kinds, &frequency);
        let mut by_kind: HashMap<ThreadKind, Vec<usize>> = HashMap::new();
        for (at, class) in open.iter().filter(|(_, class)| !class.candidate_only.is_empty()) {
            rarest(class).into_iter().for_each(|kind| by_kind.entry(kind).or_default().push(*at));
        }
        let with_baseline_only: Vec<_> = open.iter().filter(|(_, class)| !class.baseline_only.is_empty()).collect();
        let mut similar = Vec::new();
        for (rank, (at, class)) in with_baseline_only.iter().enumerate() {
            // Each class starts at another position, or all classes with a common kind would be compared
            // with the same few.
            let lists = rarest(class).into_iter().filter_map(|kind| by_kind.get(&kind));
            let others = lists.flat_map(|list| {
                let start = rank * list.len() / with_baseline_only.len();
                list[start..].iter().chain(&list[..start]).copied()
            });
            let mut seen = HashSet::from([*at]);
            for new in others.filter(|other| seen.insert(*other)).take(MOST_COMPARED) {
                self.compared += 1;
                let similarity = similarity(&class.kinds, &self.classes[new].kinds);
                similar.extend((similarity >= ALIKE).then_some(Candidates {
                    similarity,
                    baseline_class: *at,
                    candidate_class: new,
                }));
            }
        }
        similar.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
        similar
    }

    /// Matches members of equally similar classes: each of the baseline, in the order of their names,
    /// with the first unmatched one of the candidate.
    fn pair(&mut self, level: &[Candidates], similarity: f64, pairs: &mut Vec<Renamed>) {
        let mut adjacent: HashMap<usize, Vec<usize>> = HashMap::new();
        level.iter().for_each(|c| adjacent.entry(c.baseline_class).or_default().push(c.candidate_class));
        let first = |classes: &[CgroupClass<'k>], at: usize| Some((*classes[at].baseline_only.front()?, at));
        let mut next: BTreeSet<(&str, usize)> = adjacent.keys().filter_map(|at| first(&self.classes, *at)).collect();
        while let Some((baseline, old)) = next.pop_first() {
            let left = adjacent[&old].iter().filter_map(|at| Some((*self.classes[*at].candidate_only.front()?, *at)));
            let Some((candidate, new)) = left.min() else { continue };
            self.classes[old].baseline_only.pop_front();
            self.classes[new].candidate_only.pop_front();
            pairs.push(Renamed { baseline: baseline.to_owned(), candidate: candidate.to_owned(), similarity });
            next.extend(first(&self.classes, old));
        }
    }
}

/// The rarest kinds of a set: enough that every similar set shares one kind.
fn rarest(kinds: &[ThreadKind], frequency: &HashMap<ThreadKind, usize>) -> Vec<ThreadKind> {
    let mut kinds = kinds.to_vec();
    kinds.sort_by_key(|kind| (frequency[kind], *kind));
    kinds.truncate(kinds.len() - least_shared(kinds.len()) + 1);
    kinds
}

/// The minimum number of kinds that a set of this size shares with a similar one.
fn least_shared(kinds: usize) -> usize {
    (kinds * ALIKE_TENTHS).div_ceil(10)
}

/// The shared kinds of two ascending lists, divided by all kinds.
fn similarity(a: &[ThreadKind], b: &[ThreadKind]) -> f64 {
    let (mut left, mut right, mut shared) = (0, 0, 0);
    while let (Some(x), Some(y)) = (a.get(left), b.get(right)) {
        shared += usize::from(x == y);
        left += usize::from(x <= y);
        right += usize::from(y <= x);
    }
    shared as f64 / (a.len() + b.len() - shared).max(1) as f64
}

/// The pairs of cgroups with the same path below two matched ones, whatever threads they have.
fn children(baseline: &Kinds, candidate: &Kinds, parents: &[Renamed]) -> Vec<Renamed> {
    let mut used: HashSet<String> = parents.iter().map(|pair| pair.baseline.clone()).collect();
    let paired: HashMap<&str, usize> = parents.iter().enumerate().map(|(at, p)| (p.candidate.as_str(), at)).collect();
    let child = |(name, parent): (&str, usize)| {
        let parent = &parents[parent];
        let old = format!("{}{}", parent.baseline, &name[parent.candidate.len()..]);
        let is_free = !paired.contains_key(name) && !candidate.contains_key(&old) && !used.contains(&old);
        let kinds = baseline.get(&old).filter(|_| is_free)?.iter().copied().collect::<Vec<_>>();
        used.insert(old.clone());
        let similarity = similarity(&kinds, &candidate[name].iter().copied().collect::<Vec<_>>());
        Some(Renamed { baseline: old, candidate: name.to_owned(), similarity })
    };
    let new = candidate.keys().map(String::as_str).filter(|name| !baseline.contains_key(*name));
    best_ancestors(new, &paired).into_iter().filter_map(child).collect()
}

/// Returns, for each name below matched cgroups, the topmost match, in the order of the names.
fn best_ancestors<'k>(names: impl Iterator<Item = &'k str>, paired: &HashMap<&str, usize>) -> BTreeMap<&'k str, usize> {
    let mut names: Vec<&str> = names.collect();
    // Sorted by segments, so that descendants follow their cgroup.
    names.arrange_by(|a, b| a.split('/').cmp(b.split('/')));
    let mut above: Vec<(&str, Option<usize>)> = Vec::new();
    let mut best = BTreeMap::new();
    for name in names {
        while above.pop_if(|(path, _)| !name.strip_prefix(*path).is_some_and(|rest| rest.starts_with('/'))).is_some() {}
        let inherited = above.last().and_then(|(_, first)| *first);
        best.extend(inherited.map(|first| (name, first)));
        above.push((name, inherited.into_iter().chain(paired.get(name).copied()).min()));
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kinds(cgroups: &[(&str, &[u32])]) -> Kinds {
        let set = |kinds: &[u32]| kinds.iter().map(|kind| (0, *kind)).collect();
        cgroups.iter().map(|(name, kinds)| ((*name).to_owned(), set(kinds))).collect()
    }

    fn names(pairs: Vec<Renamed>) -> Vec<(String, String)> {
        pairs.into_iter().map(|r| (r.baseline, r.candidate)).collect()
    }

    fn pairs(a: &[(&str, &[u32])], b: &[(&str, &[u32])]) -> Vec<(String, String)> {
        names(renamed(&kinds(a), &kinds(b)))
    }

    /// The same, by comparing each with each.
    fn naive(baseline: &Kinds, candidate: &Kinds) -> Vec<Renamed> {
        let leaf = |path: &str| cgroup_pattern(path.rsplit('/').next().unwrap_or(path));
        let list = |set: &BTreeSet<ThreadKind>| set.iter().copied().collect::<Vec<_>>();
        let baseline_only: Vec<_> = baseline.iter().filter(|(name, _)| !candidate.contains_key(*name)).collect();
        let candidate_only: Vec<_> = candidate.iter().filter(|(name, _)| !baseline.contains_key(*name)).collect();
        let mut pairs = Vec::new();
        for (old, a) in &baseline_only {
            for (name, b) in &candidate_only {
                let (shared, similarity) = (a.intersection(b).count(), similarity(&list(a), &list(b)));
                let is_telling = shared >= TELLING || (shared > 0 && a == b && leaf(old) == leaf(name));
                if similarity >= ALIKE && is_telling {
                    pairs.push(Renamed { baseline: (*old).clone(), candidate: (*name).clone(), similarity });
                }
            }
        }
        pairs.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
        let mut paired: Vec<Renamed> = Vec::new();
        let add = |paired: &mut Vec<Renamed>, pair: Renamed| {
            if paired.iter().all(|p| p.baseline != pair.baseline && p.candidate != pair.candidate) {
                paired.push(pair);
            }
        };
        pairs.into_iter().for_each(|pair| add(&mut paired, pair));
        let parents = paired.clone();
        for (name, b) in &candidate_only {
            let below = |p: &Renamed| name.strip_prefix(&p.candidate).filter(|rest| rest.starts_with('/'));
            let Some(old) = parents.iter().find_map(|p| Some(format!("{}{}", p.baseline, below(p)?))) else { continue };
            if let Some((_, a)) = baseline_only.iter().find(|(name, _)| **name == old) {
                let similarity = similarity(&list(a), &list(b));
                add(&mut paired, Renamed { baseline: old, candidate: (*name).clone(), similarity });
            }
        }
        paired
    }

    /// Few names and few kinds, so that cgroups are alike; sets of many kinds with one or two missing.
    fn cgroups() -> impl Strategy<Value = Kinds> {
        let few = prop::collection::btree_set((0..2u32, 0..3u32), 1..5);
        let many = prop::collection::vec(0..22u32, 0..3)
            .prop_map(|missing| (0..22).filter(|kind| !missing.contains(kind)).map(|kind| (9, kind)).collect());
        prop::collection::btree_map("(/[abc-]{1,2}){1,4}", prop_oneof![few, many], 0..24)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn pairs_are_those_of_comparing_each_with_each(a in cgroups(), b in cgroups()) {
            prop_assert_eq!(renamed(&a, &b), naive(&a, &b));
        }
    }

    #[test]
    fn a_service_is_matched_with_its_old_name() {
        let threads: &[u32] = &[1, 2, 3];
        assert_eq!(pairs(&[("/a", threads)], &[("/b", threads)]), [("/a".to_owned(), "/b".to_owned())]);
        assert_eq!(pairs(&[("/a", threads)], &[("/b", &[1, 2, 4])]), []);
        assert_eq!(pairs(&[("/a", threads), ("/b", threads)], &[("/b", threads)]), [], "still there");
    }

    #[test]
    fn few_threads_need_the_same_leaf() {
        assert_eq!(pairs(&[("/x/web", &[1])], &[("/y/web", &[1])]).len(), 1);
        assert_eq!(pairs(&[("/x/web", &[1])], &[("/y/db", &[1])]), []);
    }

    #[test]
    fn pairs_are_one_to_one_and_children_follow() {
        let threads: &[u32] = &[1, 2, 3];
        let two = pairs(&[("/a", threads)], &[("/b", threads), ("/c", threads)]);
        assert_eq!(two.len(), 1);
        let family = pairs(&[("/a", threads), ("/a/x", &[4])], &[("/b", threads), ("/b/x", &[5])]);
        assert_eq!(family[1], ("/a/x".to_owned(), "/b/x".to_owned()));
    }

    #[test]
    fn two_thousand_renamed_cgroups_take_few_comparisons() {
        const CGROUPS: u32 = 2000;
        /// Some kinds that all cgroups of a family have, and one of the cgroup's own.
        fn set(family: u32, shared: u32, own: Option<u32>) -> BTreeSet<ThreadKind> {
            (0..shared).map(|kind| (family, kind)).chain(own.map(|own| (u32::MAX, own))).collect()
        }
        let same: fn(u32) -> BTreeSet<ThreadKind> = |_| set(0, 3, None);
        let unique: fn(u32) -> BTreeSet<ThreadKind> = |at| set(at, 20, None);
        let own_kind: fn(u32) -> BTreeSet<ThreadKind> = |at| set(0, 20, Some(at));
        let other_kind: fn(u32) -> BTreeSet<ThreadKind> = |at| set(0, 20, Some(CGROUPS + at));
        let families: fn(u32) -> BTreeSet<ThreadKind> = |at| set(at / 8, 20, Some(at));
        let other_families: fn(u32) -> BTreeSet<ThreadKind> = |at| set(at / 8, 20, Some(CGROUPS + at));
        for (old, new, paired) in [
            (same, same, 2000),
            (unique, unique, 2000),
            (own_kind, own_kind, 2000),
            (own_kind, other_kind, 2000),
            (families, other_families, 2000),
        ] {
            let side = |name: &str, set: fn(u32) -> BTreeSet<ThreadKind>| -> Kinds {
                (0..CGROUPS).map(|at| (format!("/{name}{at:05}"), set(at))).collect()
            };
            let (a, b) = (side("a", old), side("b", new));
            let mut classes = Classes::new(&a, &b);
            classes.pair(&classes.identical(), 1.0, &mut Vec::new());
            classes.similar();
            assert!(classes.compared <= 2000 * MOST_COMPARED, "{}", classes.compared);
            assert_eq!(renamed(&a, &b).len(), paired);
        }
    }
}

//! The keys of a set of names: the pattern of each name, if it has one, or the name.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use super::cgroup::cgroup_pattern;
use super::pattern::Readings;

/// Names that have patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameKind {
    /// Names of threads or of processes.
    Task,
    /// Names that are paths of cgroups.
    Cgroup,
}

impl NameKind {
    fn readings(self, name: &str) -> Readings {
        match self {
            Self::Task => Readings::from_name(name),
            Self::Cgroup => Readings { spelled: cgroup_pattern(name), ids: None },
        }
    }

    /// The constant part of a name. The kernel appends the current workqueue to the name of a worker
    /// (`wq_worker_comm` in `kernel/workqueue.c`): with it, a thread would be in different groups in two
    /// captures.
    fn lasting(self, name: &str) -> &str {
        let end = name.strip_prefix("kworker/").and_then(|_| name.find(['-', '+']));
        match end.map(|end| &name[..end]) {
            // A rescuer, `kworker/R-…`, keeps its queue's name.
            Some(pool) if self == Self::Task && pool.contains(':') => pool,
            _ => name,
        }
    }
}

/// The keys of a set of names: a pattern if at least two different names share it, otherwise the name
/// itself.
pub(crate) struct Keys {
    kind: NameKind,
    /// The pattern of each name that has one; `None` if every name is its own key.
    patterns: Option<HashMap<Box<str>, Arc<str>>>,
}

impl Keys {
    /// Decides the keys of all `names`. Both sides of a comparison are learned together, so that
    /// equal names have equal keys.
    ///
    /// Short hexadecimal ids need evidence, because `db01` can be a word and a number. A name with only ids
    /// of letters followed by digits keeps the letters if another name then has the same pattern. Other names
    /// with the same pattern have ids if the lengths or letters of these ids differ, and at least one name cannot be read as words with
    /// numbers, such as `7f3a9c`.
    pub(crate) fn learn<'n>(kind: NameKind, names: impl IntoIterator<Item = &'n str>) -> Self {
        let distinct: HashSet<&str> = names.into_iter().map(|name| kind.lasting(name)).collect();
        let names: Vec<(&str, Readings)> = distinct.into_iter().map(|name| (name, kind.readings(name))).collect();
        let readings = || names.iter().map(|(_, readings)| readings);

        let can_be_words = |r: &&Readings| r.ids.as_ref().is_none_or(|ids| ids.can_be_words);
        let words = repeated(readings().filter(can_be_words).map(|r| &*r.spelled));
        let undecided = |r: &&Readings| !(can_be_words(r) && words.contains(&*r.spelled));
        let ids = || readings().filter(undecided).filter_map(|r| r.ids.as_ref());
        let certain: HashSet<_> = ids().filter(|ids| !ids.can_be_words).map(|ids| &*ids.pattern).collect();
        let ids = ids().filter(|ids| certain.contains(&*ids.pattern));
        let varied = repeated(ids.map(|ids| (&*ids.pattern, &*ids.shape)).collect::<HashSet<_>>().iter().map(|p| p.0));
        let ids_of = |r| Some(r).filter(undecided)?.ids.as_ref().filter(|ids| varied.contains(&*ids.pattern));
        let spelled = repeated(readings().filter(|r| ids_of(r).is_none()).map(|r| &*r.spelled));

        let mut shared: HashMap<&str, Arc<str>> = HashMap::new();
        let patterns = names.iter().filter_map(|(name, r)| {
            let pattern = ids_of(r).map(|ids| &*ids.pattern).or_else(|| spelled.get(&*r.spelled).copied())?;
            let pattern = shared.entry(pattern).or_insert_with(|| pattern.into());
            Some((Box::from(*name), Arc::clone(pattern)))
        });
        Self { kind, patterns: Some(patterns.collect()) }
    }

    /// Makes every name its own key.
    pub(crate) fn literal() -> Self {
        Self { kind: NameKind::Task, patterns: None }
    }

    /// The key of a learned name.
    pub(crate) fn key(&self, name: &str) -> String {
        let Some(patterns) = &self.patterns else { return name.to_owned() };
        let name = self.kind.lasting(name);
        patterns.get(name).map_or(name, |pattern| pattern).to_owned()
    }
}

/// The items that occur more than once.
fn repeated<T: Copy + Eq + Hash>(items: impl Iterator<Item = T>) -> HashSet<T> {
    let mut once = HashSet::new();
    items.filter(|item| !once.insert(*item)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys<const N: usize>(names: [&str; N]) -> [String; N] {
        let keys = Keys::learn(NameKind::Task, names);
        names.map(|name| keys.key(name))
    }

    #[test]
    fn a_pattern_needs_two_names() {
        assert_eq!(
            keys(["python3", "worker-7", "worker-9", "python3", "solo-1"]),
            ["python3", "worker-{N}", "worker-{N}", "python3", "solo-1"]
        );
        assert_eq!(Keys::literal().key("worker-7"), "worker-7");
    }

    #[test]
    fn pools_whose_names_are_hexadecimal_digits_stay_apart() {
        assert_eq!(keys(["db01", "db02", "abcd1", "abcd2"]), ["db{N}", "db{N}", "abcd{N}", "abcd{N}"]);
        assert_eq!(keys(["db9", "db10", "fee1-a"]), ["db{N}", "db{N}", "fee1-a"]);
        assert_eq!(keys(["12ab", "34ab", "5ab"]), ["{N}ab", "{N}ab", "{N}ab"]);
        assert_eq!(keys(["a1b2", "a3b4"]), ["a1b2", "a3b4"], "only the digits differ");
        assert_eq!(keys(["be01", "fe01", "ad02"]), ["be01", "fe01", "ad02"]);
    }

    #[test]
    fn ids_that_differ_in_letters_or_length_are_one_group() {
        assert_eq!(keys(["job-7f3a9c", "job-c41b07"]), ["job-{H}", "job-{H}"]);
        assert_eq!(keys(["job-7f3a", "job-7f3a9"]), ["job-{H}", "job-{H}"]);
        assert_eq!(keys(["job-7f3a", "other"]), ["job-7f3a", "other"]);
        assert_eq!(keys(["r-7-a1b2", "r-8-a1b2", "r-9-c3d4"]), ["r-{N}-{H}", "r-{N}-{H}", "r-{N}-{H}"]);
        let ids = ["j-0123456789abcdef", "j-0123456789abcdee"];
        assert_eq!(keys(ids), ["j-{H}", "j-{H}"], "long ids need no evidence");
        assert_eq!(keys([ids[0], "j-a1b2"]), ["j-{H}", "j-{H}"]);
    }

    #[test]
    fn a_kernel_worker_keeps_its_group_when_it_takes_other_work() {
        let names = ["kworker/u8:7-events", "kworker/u8:7+flush-254:0", "kworker/u8:1", "kworker/0:1H-kblockd"];
        let keys = Keys::learn(NameKind::Task, names);
        assert_eq!(keys.key("kworker/u8:7-events"), "kworker/u{N}:{N}");
        assert_eq!(keys.key("kworker/u8:7-writeback"), "kworker/u{N}:{N}");
        assert_eq!(keys.key("kworker/0:1H-kblockd"), "kworker/0:1H");
        assert_eq!(keys.key("kworker/R-inet_frag_wq"), "kworker/R-inet_frag_wq");
        assert_eq!(Keys::literal().key("kworker/u8:7-events"), "kworker/u8:7-events");
    }
}

//! A reason as reports have it, and the names by which gates find reasons.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Serialize, Serializer};

use super::code_site::{self, CodeSite};
use super::{BLOCK, HALTED, RUN, SLEEP, WAIT, ZOMBIE, limited};
use crate::model::sorted::CollectSorted;
use crate::model::{CodeFunction, Name, Reason, ReasonClass, WaitPlace};

/// Activity of a group's threads, or what they waited for, as reports have it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct GroupReason {
    /// Class of the reason.
    pub class: ReasonClass,
    /// How the threads got into the kernel: the name of a system call, or `page fault`.
    pub entry: Option<Name>,
    /// Functions of the kernel that they wait in, the innermost first: only that one, unless whole stacks are asked for.
    pub functions: Vec<Name>,
    /// Object of the system call: a path, socket or pipe.
    pub object: Option<Name>,
    /// The group that ran on the CPU or owns the lock: its name, or `itself`.
    pub by: Option<Name>,
    /// Where in their code they wait; `None` if that is unknown, and in whole stacks.
    pub at: Option<CodeSite>,
    /// Where the owner of the lock slept; `None` if it did not, or if that is unknown.
    pub held_in: Option<CodeSite>,
    /// Functions of the program that led to it, as [`CodeFunction`] reads them; of several stacks, the most frequent one.
    #[serde(serialize_with = "labels")]
    pub stack: Option<Name>,
}

pub(crate) const ITSELF: &str = "itself";
/// The classes of the states of [`HALTED`].
const HALTED_CLASSES: [ReasonClass; 3] = [ReasonClass::Stopped, ReasonClass::Traced, ReasonClass::Frozen];

impl GroupReason {
    pub(super) fn new(reason: &Reason, by: Option<Name>) -> Self {
        let functions = reason.function_names().map(Name::from).collect();
        let Reason { class, entry, object, stack, held_in, .. } = reason.clone();
        let held_in = held_in.as_deref().and_then(code_site::of_owner);
        Self { class, entry, functions, object, by, at: None, held_in, stack }
    }

    /// The column of the overview that it is a part of; `None` for classes that this version does not know.
    pub(crate) fn column(&self) -> Option<&'static str> {
        Some(match self.class {
            ReasonClass::Run => RUN,
            ReasonClass::Wait | ReasonClass::CpuQuota => WAIT,
            ReasonClass::Block => BLOCK,
            ReasonClass::Sleep | ReasonClass::Idle | ReasonClass::Unread => SLEEP,
            ReasonClass::Zombie => ZOMBIE,
            class => HALTED[HALTED_CLASSES.iter().position(|halted| *halted == class)?],
        })
    }

    /// Returns the reason for otherwise unexplained time in a column of the overview; `None` for columns that have no reasons.
    pub(super) fn other(column: &str) -> Option<Self> {
        let class = match column {
            RUN => ReasonClass::Run,
            WAIT => ReasonClass::Wait,
            BLOCK => ReasonClass::Block,
            SLEEP => ReasonClass::Sleep,
            ZOMBIE => ReasonClass::Zombie,
            _ => HALTED_CLASSES[HALTED.iter().position(|halted| *halted == column)?],
        };
        Some(Self::of_class(class))
    }

    /// Returns the reason for which exited threads are listed: this process has not waited for them.
    pub(super) fn not_waited_for_by(parent: &Name) -> Self {
        Self { by: Some(Name::clone(parent)), ..Self::of_class(ReasonClass::Zombie) }
    }

    fn of_class(class: ReasonClass) -> Self {
        Self { class, entry: None, functions: Vec::new(), object: None, by: None, at: None, held_in: None, stack: None }
    }

    /// The same on all objects of its kind, if the object has only a number: `pipes` instead of `pipe:[4711]`.
    pub(super) fn of_kind_of_object(&self) -> Self {
        let kind = self.object.as_deref().and_then(numbered).map(|kind| format!("{kind}s").into());
        Self { object: kind.or_else(|| self.object.clone()), ..self.clone() }
    }

    /// The same with the objects of all of its `members`: `12 pipes`, or the one that there is.
    pub(super) fn on_objects_of<'m>(self, members: impl Iterator<Item = &'m Self>) -> Self {
        let objects: BTreeSet<_> = members.filter_map(|member| member.object.as_ref()).into_set();
        let is_of_kind = self.object.is_some() && objects.iter().all(|object| numbered(object).is_some());
        let object = match (objects.len(), objects.first()) {
            (1, Some(only)) if is_of_kind => Some(Name::clone(only)),
            (count, Some(first)) if is_of_kind => numbered(first).map(|kind| format!("{count} {kind}s").into()),
            _ => self.object.clone(),
        };
        Self { object, ..self }
    }

    /// The same with only the innermost function of the kernel, and without any of the program.
    pub(super) fn without_functions(&self) -> Self {
        Self { stack: None, ..self.coarse(0) }
    }

    /// Returns the reason with fewer details: from level 0, with the innermost functions, to [`COARSEST`], which is only a
    /// column. A place in the code is kept longer than the object of the call, and then becomes the place of the caller.
    pub(super) fn coarse(&self, level: usize) -> Self {
        if self.class == ReasonClass::Idle {
            return Self::of_class(self.class);
        }
        if let Some(other) = self.column().filter(|_| level >= COARSEST).and_then(Self::other) {
            return other;
        }
        let mut coarse = Self { stack: None, ..self.of_kind_of_object() };
        coarse.at = match level {
            0 | 1 => self.at.clone(),
            2 => self.at.as_ref().and_then(CodeSite::outward),
            _ => None,
        };
        // Who took the CPU matters, not where the thread was when it lost it.
        let is_for_cpu = matches!(self.class, ReasonClass::Wait | ReasonClass::CpuQuota);
        // Where the program waits says more than where the kernel does.
        let has_place = coarse.at.is_some() && coarse.entry.is_some();
        coarse.functions.truncate(if level > 4 || is_for_cpu || has_place { 0 } else { 1 });
        if level > 3 || (level > 0 && coarse.at.is_some()) {
            (coarse.object, coarse.by, coarse.held_in) = (None, None, None);
        }
        if level > 2 {
            coarse.held_in = None;
        }
        if level > 5 || is_for_cpu {
            coarse.entry = None;
        }
        coarse
    }

    /// Whether it says more than its column.
    pub(crate) fn is_known(&self) -> bool {
        let is_in_code = !self.functions.is_empty() || self.at.is_some();
        let is_named = self.entry.is_some() || is_in_code || self.by.is_some();
        let classes = [ReasonClass::CpuQuota, ReasonClass::Idle, ReasonClass::Zombie, ReasonClass::Unread];
        is_named || classes.contains(&self.class) || HALTED_CLASSES.contains(&self.class)
    }

    /// How the threads got to where they wait: `fdatasync → submit_bio_wait`, `futex in cache_get ← lookup`, or what else is known.
    pub(crate) fn place(&self) -> String {
        let place = WaitPlace {
            entry: self.entry.as_deref().map(limited),
            function: self.functions.first().map(|name| limited(name)),
            by: self.by.as_deref().map(limited),
            at: self.at.as_ref().map(ToString::to_string),
        };
        place.name(self.class)
    }

    /// Returns the target of the wait, if `object` is the name of the object: ` on /data/wal`, `, held by cc1`.
    pub(crate) fn target(&self, object: impl Fn(&str) -> String) -> String {
        let object = self.object.as_ref().map(|name| format!(" on {}", object(name)));
        let is_holder = !matches!(self.class, ReasonClass::Wait | ReasonClass::Zombie);
        let by = self.by.as_ref().filter(|_| is_holder);
        let owner = match (by, &self.held_in) {
            (Some(by), Some(site)) if &**by != ITSELF => Some(format!(", held by {} in {site}", limited(by))),
            (_, Some(site)) => Some(format!(", held in {site}")),
            (Some(by), None) => Some(format!(", held by {}", limited(by))),
            (None, None) => None,
        };
        [object, owner].into_iter().flatten().collect()
    }

    /// All functions, which tell whole stacks apart.
    pub(super) fn whole_name(&self) -> String {
        let stack = self.stack.iter().flat_map(|stack| CodeFunction::all(stack)).map(CodeFunction::label);
        let functions: Vec<_> = stack.chain(self.functions.iter().map(ToString::to_string)).collect();
        format!("{self}; {}", functions.join(";"))
    }
}

/// The kind of an object that has no name but a number: `pipe` of `pipe:[4711]`.
fn numbered(object: &str) -> Option<&str> {
    let (kind, number) = object.strip_suffix(']')?.split_once(":[")?;
    number.bytes().all(|digit| digit.is_ascii_digit()).then_some(kind)
}

/// The functions of a stack as a list of names, the innermost first.
fn labels<S: Serializer>(stack: &Option<Name>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(stack.iter().flat_map(|stack| CodeFunction::all(stack)).map(CodeFunction::label))
}

/// The level of [`GroupReason::coarse`] that has only a column.
pub(super) const COARSEST: usize = 7;

impl fmt::Display for GroupReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}{}", self.column().unwrap_or("unknown"), self.place(), self.target(limited))
    }
}

/// Name that a reason can have: the name of a class, a system call, a function of the kernel or a culprit, in all columns of the
/// overview or in one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReasonName {
    column: Option<&'static str>,
    name: String,
}

impl ReasonName {
    /// `block/fdatasync`, `fdatasync`, `in:cache_get` or `sleep/in:cache_get`; `None` if reasons have no such names.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (column, name) = Self::split(text);
        let is_symbol = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
        let is_name = (is_symbol && !name.starts_with(|c: char| c.is_ascii_digit())) || name == PAGE_FAULT;
        let is_function = name.len() > IN_FUNCTION.len() && name.starts_with(IN_FUNCTION);
        let is_valid = !name.is_empty() && (column.is_some() || is_function || is_name);
        is_valid.then(|| Self { column, name: name.to_owned() })
    }

    /// The column before the name, if there is one, and the name.
    fn split(text: &str) -> (Option<&'static str>, &str) {
        let column = |name: &str| [RUN, WAIT, BLOCK, SLEEP].into_iter().find(|column| *column == name);
        let split = text.split_once('/').and_then(|(front, name)| Some((Some(column(front)?), name)));
        split.unwrap_or((None, text))
    }

    /// Whether a text is the name of a function of a program. Its colons are in pairs: those in `in:imuxsock:run` are of a thread.
    pub(super) fn is_of_function(text: &str) -> bool {
        let function = Self::split(text).1.strip_prefix(IN_FUNCTION);
        function.is_some_and(|function| !function.is_empty() && !function.replace("::", "").contains(':'))
    }

    /// Whether a reason has the name. Of functions, it can be any on the stack.
    pub(super) fn is_of(&self, reason: &GroupReason) -> bool {
        if self.column.is_some() && self.column != reason.column() {
            return false;
        }
        if let Some(function) = self.name.strip_prefix(IN_FUNCTION) {
            let mut functions = reason.stack.iter().flat_map(|stack| CodeFunction::all(stack));
            return functions.any(|of_stack| of_stack.name == function);
        }
        let names = reason.entry.iter().chain(&reason.functions).chain(&reason.by);
        let class = match reason.class {
            ReasonClass::CpuQuota => "cpu_quota",
            ReasonClass::Idle => "idle",
            ReasonClass::Zombie => "zombie",
            ReasonClass::Unread => "unread",
            class => HALTED_CLASSES.iter().position(|halted| *halted == class).map_or("", |at| HALTED[at]),
        };
        class == self.name || names.into_iter().any(|name| **name == *self.name)
    }
}

/// Before the name of a function of a program.
const IN_FUNCTION: &str = "in:";
/// How a thread gets into the kernel without a system call.
const PAGE_FAULT: &str = "page fault";

impl fmt::Display for ReasonName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.column {
            Some(column) => write!(f, "{column}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(class: ReasonClass) -> GroupReason {
        GroupReason::new(&Reason { class, ..Reason::default() }, None)
    }

    fn named(text: &str) -> ReasonName {
        ReasonName::parse(text).unwrap()
    }

    #[test]
    fn a_reason_without_a_place_has_the_name_of_its_class() {
        use ReasonClass::{CpuQuota, Frozen, Idle, Run, Stopped, Traced, Unread};
        let classes = [CpuQuota, Idle, Stopped, Traced, Frozen, Unread];
        assert_eq!(
            classes.map(|class| reason(class).place()),
            ["CPU quota", "idle", "by a signal", "by its tracer", "by the freezer of its cgroup", "not readable"]
        );
        assert!(classes.into_iter().all(|class| reason(class).is_known()));
        assert_eq!((reason(Run).place().as_str(), reason(Run).is_known()), ("on a CPU", false));
        assert_eq!(reason(ReasonClass::Block).place(), "other");
        let in_futex = GroupReason { entry: Some("futex".into()), ..reason(Idle) };
        assert_eq!(in_futex.coarse(0), reason(Idle), "one row for all that were idle");
        let by = GroupReason { by: Some("cc1".into()), ..reason(ReasonClass::Wait) };
        assert_eq!((by.place().as_str(), by.is_known()), ("cc1 ran", true));
        let entered = GroupReason { entry: Some("futex".into()), ..reason(ReasonClass::Sleep) };
        assert_eq!((entered.place().as_str(), entered.is_known()), ("futex", true));
        let names = ["cpu_quota", "idle", "stopped", "traced", "frozen", "unread"];
        for (class, name) in classes.into_iter().zip(names) {
            assert!(named(name).is_of(&reason(class)) && !named(name).is_of(&reason(Run)), "{name}");
        }
    }

    #[test]
    fn a_function_with_a_column_has_the_time_of_that_column() {
        let blocked = GroupReason { stack: Some("api:cache_get".into()), ..reason(ReasonClass::Block) };
        let names = ["in:cache_get", "block/in:cache_get", "sleep/in:cache_get", "in:cache_put"];
        assert_eq!(names.map(|name| named(name).is_of(&blocked)), [true, true, false, false]);
    }

    #[test]
    fn the_name_of_a_reason_is_a_symbol_or_anything_behind_a_column() {
        assert_eq!(
            ["futex", "x.constprop.0", "page fault"].map(|text| named(text).to_string()),
            ["futex", "x.constprop.0", "page fault"]
        );
        assert_eq!(
            ["wait/redis server", "block/9p_read"].map(|text| named(text).to_string()),
            ["wait/redis server", "block/9p_read"]
        );
        assert_eq!(["in:a::b", "sleep/in:a::b"].map(|text| named(text).to_string()), ["in:a::b", "sleep/in:a::b"]);
        let none = ["", "in:", "9p_read", "two words", "wait/", "cgroup/x", "a:b", "10%"];
        assert_eq!(none.map(ReasonName::parse), [const { None }; 8]);
    }
}

//! Functions that many callers wait in, and the place in the code that says what each caller waits for.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::GroupReason;
use super::code_site::{self, CodeSite, telling};
use crate::model::{CodeFunction, Name, ReasonClass};

/// How far out from the innermost function the site of a stack can be, and how far apart wrappers of one wait are.
const FARTHEST: usize = 12;
const NEAR: usize = 3;
/// A caller of a function with fewer of its samples, or with less than one in so many, is no other use of it.
const FEWEST_SAMPLES: u64 = 5;
const LEAST_PART: u64 = 10;

/// Common properties of a group's reasons that wait by the same system call.
type WaitKind<'r> = (ReasonClass, Option<&'r Name>);

/// Functions in which several callers wait, each for something else: `WaitLatch` of PostgreSQL, for example.
pub(super) struct SharedWaits<'r>(HashMap<WaitKind<'r>, HashSet<CodeFunction<'r>>>);

impl<'r> SharedWaits<'r> {
    /// Finds them in the reasons of a group with their samples.
    pub(super) fn from_reasons(reasons: &BTreeMap<&'r GroupReason, u64>) -> Self {
        type Callers<'r> = HashMap<CodeFunction<'r>, HashMap<Option<CodeFunction<'r>>, u64>>;
        let mut waits: HashMap<WaitKind<'r>, Callers<'r>> = HashMap::new();
        for (&reason, samples) in reasons {
            let Some(stack) = &reason.stack else { continue };
            let functions = telling(stack);
            let callers = waits.entry(wait(reason)).or_default();
            // What is missing from stacks is no wrapper, whatever called it.
            for place in (0..functions.len().min(FARTHEST)).filter(|place| !functions[*place].is_gap()) {
                let of_caller = callers.entry(functions[place]).or_default();
                *of_caller.entry(functions.get(place + 1).copied()).or_default() += samples;
            }
        }
        let is_shared = |callers: &HashMap<_, u64>| {
            let all: u64 = callers.values().sum();
            callers.values().filter(|samples| **samples >= FEWEST_SAMPLES.max(all / LEAST_PART)).count() > 1
        };
        let shared = |callers: Callers<'r>| {
            callers.into_iter().filter(|(_, callers)| is_shared(callers)).map(|(function, _)| function).collect()
        };
        Self(waits.into_iter().map(|(wait, callers)| (wait, shared(callers))).collect())
    }

    /// The site of a reason with a stack: the innermost function, or the outermost of the shared ones that lead to it, with its
    /// caller, which tells its uses apart.
    pub(super) fn site(&self, reason: &'r GroupReason) -> Option<CodeSite> {
        let stack = reason.stack.as_ref()?;
        let functions = telling(stack);
        let shared = self.0.get(&wait(reason));
        let is_shared = |place: &usize| {
            functions.get(*place).is_some_and(|function| shared.is_some_and(|shared| shared.contains(function)))
        };
        let mut place = 0;
        // What runs is in its innermost function, whoever called it.
        let is_wait = reason.class != ReasonClass::Run;
        while let Some(next) =
            (place + 1..=place + NEAR).rev().find(is_shared).filter(|next| *next < FARTHEST && is_wait)
        {
            place = next;
        }
        code_site::at(&functions, place)
    }
}

fn wait(reason: &GroupReason) -> WaitKind<'_> {
    (reason.class, reason.entry.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Reason;

    /// The sites of stacks with so many samples.
    fn sites(stacks: &[(&str, u64)]) -> Vec<String> {
        let reason = |stack: &str| {
            let (entry, stack) = (Some("futex".into()), Some(stack.into()));
            GroupReason::new(&Reason { class: ReasonClass::Sleep, entry, stack, ..Reason::default() }, None)
        };
        let reasons: Vec<_> = stacks.iter().map(|(stack, samples)| (reason(stack), *samples)).collect();
        let shared = SharedWaits::from_reasons(&reasons.iter().map(|(reason, samples)| (reason, *samples)).collect());
        reasons
            .iter()
            .map(|(reason, _)| shared.site(reason).map_or_else(|| "-".to_owned(), |at| at.to_string()))
            .collect()
    }

    #[test]
    fn the_innermost_function_that_is_of_no_runtime_is_shown_with_its_caller() {
        let stacks = [
            ("libc.so.6:nanosleep;convoy:rest;convoy:lookup;convoy:serve;libc.so.6:clone", 9),
            ("libc.so.6:futex;app:std::thread::park;app:pool::wait;app:pool::wait;app:std::x::call;app:main", 9),
            ("libc.so.6:futex;libstdc++.so.6:;libc.so.6:clone", 9),
            ("libc.so.6:futex;server:;libc.so.6:clone", 9),
            (":;:", 9),
            ("libc.so.6:futex;app:?stripped+0x10;app:?stripped+0x20;libc.so.6:clone", 9),
            ("libc.so.6:poll;app:?stripped+0x10;app:exported;app:?stripped+0x20", 9),
            ("ld-musl-x86_64.so.1:poll;ld-musl-x86_64.so.1:?no unwind tables", 9),
            ("libc.so.6:futex;libjvm.so:park;:?runtime without frames", 9),
            ("libc.so.6:select;python3:time_sleep;python3:_PyEval_EvalFrameDefault;python3:PyEval_EvalCode", 9),
            ("libc.so.6:select;python3:time_sleep;python3:_PyEval_EvalFrameDefault;app.py:nap;app.py:main", 9),
            ("libjvm.so:park;:java.lang.Thread.sleep;(jvm):Interpreter;:shop.Cart.add", 9),
            ("libc.so.6:pause;app:main;app:_start", 9),
        ];
        let expected =
            ["rest ← lookup", "pool::wait ← main", "-", "[server]", "[unknown code]", "[app: stripped]", "exported"];
        let expected = [
            &expected[..],
            &["[ld-musl-x86_64.so.1: no unwind tables]", "[runtime without frames]"],
            &["time_sleep ← [runtime without frames]", "time_sleep ← nap"],
            &["[runtime without frames] ← shop.Cart.add", "main"],
        ];
        assert_eq!(sites(&stacks), expected.concat());
    }

    #[test]
    fn a_wrapper_is_passed_over_if_its_callers_wait_for_different_things() {
        let stacks = [
            ("pg:WaitEventSetWait;pg:WaitLatch;pg:ProcSleep;pg:LockAcquire;pg:XactLockTableWait;pg:heap_update", 90),
            ("pg:WaitEventSetWait;pg:WaitLatch;pg:ProcSleep;pg:LockAcquire;pg:LockTuple;pg:heap_update", 30),
            ("pg:WaitEventSetWait;pg:WaitLatch;pg:secure_read;pg:ReadCommand", 50),
            // An error once in a while is no other use.
            ("pg:WaitEventSetWait;pg:WaitLatch;pg:elog;pg:ReadCommand", 4),
        ];
        let expected = [
            "LockAcquire ← XactLockTableWait",
            "LockAcquire ← LockTuple",
            "WaitLatch ← secure_read",
            "WaitLatch ← elog",
        ];
        assert_eq!(sites(&stacks), expected);
        assert_eq!(sites(&stacks[..1]), ["WaitEventSetWait ← WaitLatch"], "one use");
    }

    #[test]
    fn a_function_far_out_with_several_callers_hides_none_inside() {
        let stacks = [
            ("app:cache_get;app:lookup;app:handle;app:parse;app:serve;app:first", 50),
            ("app:cache_get;app:lookup;app:handle;app:parse;app:serve;app:second", 50),
        ];
        assert_eq!(sites(&stacks), ["cache_get ← lookup"; 2]);
    }
}

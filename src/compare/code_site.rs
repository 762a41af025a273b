//! Where in the code threads wait: of a stack, the function that says something, and its caller.

use std::fmt;

use serde::Serialize;

use super::runtimes::is_of_runtime;
use super::shortened;
use crate::model::{CodeFunction, Name};

/// A function of a program, and the one that called it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct CodeSite {
    /// Name of the function, or in brackets the name of its file.
    pub function: Name,
    /// Name of its caller; `None` if the function has none that is not of a runtime.
    pub caller: Option<Name>,
}

impl CodeSite {
    /// The site without the function: in its caller, as far as that is known.
    pub(super) fn outward(&self) -> Option<Self> {
        self.caller.clone().map(|function| Self { function, caller: None })
    }
}

impl fmt::Display for CodeSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.function)?;
        self.caller.iter().try_for_each(|caller| write!(f, " ← {caller}"))
    }
}

/// Maximum length of a function's name, in characters: names of templates and closures have no end.
const LONGEST_NAME: usize = 64;
/// Returns the functions of a stack, the innermost first, without functions of runtimes and without names. A function that calls
/// itself is one.
pub(super) fn telling(stack: &str) -> Vec<CodeFunction<'_>> {
    let named = CodeFunction::all(stack).filter(|function| !function.name.is_empty() && !is_of_runtime(*function));
    let mut functions: Vec<_> = named.collect();
    functions.dedup();
    functions
}

/// The name of a function in reports.
pub(super) fn label(function: CodeFunction<'_>) -> Name {
    shortened(&function.label(), LONGEST_NAME).into()
}

/// The site of the owner of a lock.
pub(super) fn of_owner(stack: &str) -> Option<CodeSite> {
    let functions = telling(stack);
    let Some(function) = functions.first() else { return without_name(stack) };
    Some(CodeSite { function: label(*function), caller: functions.get(1).copied().map(label) })
}

/// The file of the innermost function that is of no runtime, if none has a name.
pub(super) fn without_name(stack: &str) -> Option<CodeSite> {
    let mut unnamed = CodeFunction::all(stack).filter(|function| !is_of_runtime(*function));
    unnamed.next().map(|function| CodeSite { function: label(function), caller: None })
}

//! Where in the code threads wait: of a stack, the function that says something, and its caller.

use std::fmt;

use serde::Serialize;

use super::runtimes::of_programs;
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

/// Returns the functions of a stack that belong to no runtime and have a name, the innermost first; if none has a name, functions
/// without one. A function that calls itself is one, and so are functions that a runtime keeps to itself.
pub(super) fn telling(stack: &str) -> Vec<CodeFunction<'_>> {
    let outside = of_programs(stack);
    let has_names = outside.iter().any(|function| function.is_named());
    let is_wanted = |function: &CodeFunction<'_>| function.is_named() || function.is_gap() || !has_names;
    let mut functions: Vec<_> = outside.into_iter().filter(is_wanted).collect();
    functions.dedup();
    functions
}

/// The name of a function in reports.
pub(super) fn label(function: CodeFunction<'_>) -> Name {
    shortened(&function.label(), LONGEST_NAME).into()
}

/// The site of the owner of a lock.
pub(super) fn of_owner(stack: &str) -> Option<CodeSite> {
    at(&telling(stack), 0)
}

/// Returns the site of a function that [`telling`] returned, with its caller.
pub(super) fn at(functions: &[CodeFunction<'_>], place: usize) -> Option<CodeSite> {
    let (function, caller) = (functions.get(place)?.without_place(), functions.get(place + 1));
    let caller = caller.map(|caller| caller.without_place()).filter(|caller| *caller != function);
    Some(CodeSite { function: label(function), caller: caller.map(label) })
}

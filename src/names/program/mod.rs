//! The name of what a process runs, where the name of the process does not say it: the script, module, jar or main class
//! of an interpreter, or the program that a loader or a descriptor started.

mod grammar;
mod interpreters;
#[cfg(test)]
mod tests;
mod title;

pub(crate) use self::grammar::base_name;
use self::grammar::{Interpreter, WhatRuns};
use self::interpreters::INTERPRETERS;
use self::title::{sets_title, title};
use crate::model::{Name, may_be_cut, printable};

/// Longer names are left out, in bytes.
const LONGEST: usize = 128;

/// Facts about a process, from which the name of its program is found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartedProgram<'a> {
    /// Name of the process, which the kernel cuts after 15 bytes.
    pub(crate) comm: &'a str,
    /// Target of the link `exe`; `None` if it cannot be read.
    pub(crate) exe: Option<&'a [u8]>,
    /// Arguments, starting with the program. Each ends with a zero byte: an argument without one is cut, and not used.
    pub(crate) arguments: &'a [u8],
}

impl StartedProgram<'_> {
    /// Whether the name depends on the arguments: reading them can block, so they are not read of other processes.
    pub(crate) fn needs_arguments(&self) -> bool {
        self.interpreter().is_some() || sets_title(self.comm)
    }

    /// Whether something else than the name of the process may say what it runs.
    pub(crate) fn may_have_name(&self) -> bool {
        self.is_descriptor() || self.needs_arguments()
    }

    /// Whether it was executed by a descriptor: execve(2) of /proc/self/fd/3 makes `3` the name of the process.
    fn is_descriptor(&self) -> bool {
        self.comm.bytes().all(|byte| byte.is_ascii_digit())
    }

    fn interpreter(&self) -> Option<&'static Interpreter> {
        self.exe.and_then(|exe| interpreter(executed(exe))).or_else(|| interpreter(self.comm.as_bytes()))
    }

    /// Returns the name of the program that the process runs, without directory; `None` if its own name says it, or if nothing
    /// else is certain.
    ///
    /// The name belongs to a file for which `is_file` is true (a regular file, found from the root and working directory of the
    /// process), of the executed file, or of a module or class. No other text of the arguments becomes a name.
    pub(crate) fn name(&self, is_file: &dyn Fn(&[u8]) -> bool) -> Option<Name> {
        if sets_title(self.comm) {
            return title(self.arguments).filter(|title| title.len() <= LONGEST).map(Into::into);
        }
        let executed = self.exe.map(executed);
        let arguments = self.arguments.split_inclusive(|&byte| byte == 0).map_while(|word| word.strip_suffix(b"\0"));
        let mut arguments = arguments.skip(1);
        let mut runs = |interpreter: &Interpreter| interpreter.runs(&mut arguments, is_file);
        let mut named = self.interpreter().and_then(&mut runs);
        if let Some(program) =
            named.filter(|_| self.interpreter().is_some_and(|loader| loader.operand == WhatRuns::Program))
        {
            // What a loader starts can be an interpreter.
            named = interpreter(base_name(program)).and_then(runs).or(named);
        }
        let name = named.or(executed.filter(|_| self.is_descriptor()))?;
        let name = Some(printable(name)).filter(|_| !name.is_empty() && name.len() <= LONGEST)?;
        // The kernel names a process after the script that was executed.
        let is_own = *name == *self.comm || may_be_cut(self.comm) && name.starts_with(self.comm);
        (!is_own).then(|| name.into())
    }
}

/// Finds the interpreter by the name of its file.
fn interpreter(name: &[u8]) -> Option<&'static Interpreter> {
    INTERPRETERS.iter().find(|interpreter| interpreter.is_named(name))
}

/// The name of an executed file by the link `exe`, which says whether the file was removed or is in memory only.
fn executed(exe: &[u8]) -> &[u8] {
    let path = exe.strip_suffix(b" (deleted)").unwrap_or(exe);
    match path.strip_prefix(b"/") {
        Some(memory) if memory.starts_with(b"memfd:") => {
            // runc calls its copy of itself `runc_cloned:/proc/self/exe`.
            let first = memory.split(|&byte| byte == b'/').next().unwrap_or(memory);
            first.strip_suffix(b":").filter(|first| *first != b"memfd").unwrap_or(first)
        }
        _ => base_name(path),
    }
}

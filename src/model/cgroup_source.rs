//! The file of a cgroup with a value: in version 2, and in the hierarchies of version 1.

/// A file of a cgroup, and the position of a value in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CgroupFile {
    /// The hierarchy of version 1; `None` for version 2.
    pub(crate) controller: Option<&'static str>,
    pub(crate) file: &'static str,
    pub(crate) place: Place,
    pub(crate) conversion: Conversion,
}

/// The position of a value in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is the whole file.
    Whole,
    /// After a key and a blank, on a line of their own.
    Key(&'static str),
    /// A word of the first line, counted from 1.
    Word(usize),
}

/// The conversion of a number of version 1 to the value of version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    Same,
    /// Nanoseconds, which become microseconds.
    Nanoseconds,
    /// CPU shares become a weight.
    Shares,
    /// A negative number means no limit.
    NegativeIsMax,
    /// A number that no counter of pages can reach means no limit.
    UnreachableIsMax,
    /// A limit of memory and swap together: minus the memory limit in the given file. A number that no
    /// counter of pages can reach means no limit.
    LimitAbove(&'static str),
}

/// Version 1 counts limits in pages and prints bytes: no limit is the largest multiple of the page
/// size, up to 64 KiB, below 2^63 (`PAGE_COUNTER_MAX`).
pub(crate) const UNREACHABLE_LIMIT: u64 = (u64::MAX >> 1) & !0xffff;

pub(super) const fn v2(file: &'static str) -> CgroupFile {
    CgroupFile { controller: None, file, place: Place::Whole, conversion: Conversion::Same }
}

/// A file in the version 1 hierarchy of `controller`.
pub(super) const fn v1(controller: &'static str, file: &'static str) -> CgroupFile {
    CgroupFile { controller: Some(controller), ..v2(file) }
}

impl CgroupFile {
    pub(super) const fn key(self, key: &'static str) -> Self {
        Self { place: Place::Key(key), ..self }
    }

    pub(super) const fn word(self, number: usize) -> Self {
        Self { place: Place::Word(number), ..self }
    }

    pub(super) const fn converted(self, conversion: Conversion) -> Self {
        Self { conversion, ..self }
    }

    /// The file and the position in it, as text.
    pub(crate) fn describe(&self) -> String {
        let place = match self.place {
            Place::Whole => String::new(),
            Place::Key(key) => format!(" {key}"),
            Place::Word(number) => format!(" word {number}"),
        };
        let version = if self.controller.is_some() { "v1 " } else { "" };
        let less = match self.conversion {
            Conversion::LimitAbove(below) => format!(" − {below}"),
            _ => String::new(),
        };
        format!("{version}{}{place}{less}", self.file)
    }
}

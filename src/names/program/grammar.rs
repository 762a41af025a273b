//! Command lines of interpreters: which arguments are options, and which one names what runs. Only listed options are
//! known; any other one ends the search without a name, because code or a value may follow it.

/// The command line of an interpreter.
pub(super) struct Interpreter {
    /// Names of the executed file without a version, separated by spaces. A `*` at the end stands for any characters.
    pub(super) names: &'static str,
    /// Characters that begin an option.
    pub(super) signs: &'static str,
    /// An argument that can stand before all others and changes nothing.
    pub(super) subcommand: &'static str,
    /// The options, separated by spaces, and what follows them. An option of a sign and one letter can stand in one argument with
    /// others. A longer one is a whole argument, and can end with `=VALUE`; a `*` at the end stands for any characters.
    pub(super) options: &'static [(Follows, &'static str)],
    /// Meaning of the first argument that is not an option.
    pub(super) operand: WhatRuns,
}

/// Meaning of the arguments after an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    /// Another option follows, or an operand.
    Nothing,
    /// Octal digits, then other letters.
    Digits,
    /// A value in the same argument, which may be absent.
    Rest,
    /// A value, in the same argument or the next one.
    Word,
    /// A value in the next argument, while other letters follow in this one.
    NextWord,
    /// Values up to the next option.
    Words,
    /// No more options follow: the next argument is an operand.
    Operand,
    /// The program that runs, in the same argument or the next one.
    Runs(WhatRuns),
}

/// Thing that an argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhatRuns {
    /// Path of a regular file.
    File,
    /// A regular file with one of these ends, separated by spaces.
    FileEnding(&'static str),
    /// A regular file, whose path may lack one of these ends, separated by spaces.
    FileWithout(&'static str),
    /// A program, with its arguments behind it.
    Program,
    /// A module of Python: identifiers between dots.
    Module,
    /// A class of Java, with its module or packages, or a file of source code.
    Class,
    /// Nothing: code, or what is not known.
    Nothing,
}

/// An interpreter without options.
pub(super) const PLAIN: Interpreter =
    Interpreter { names: "", signs: "-", subcommand: "", options: &[], operand: WhatRuns::File };

/// Consequence of an argument with options.
#[derive(Clone, Copy)]
enum FoundOption<'a> {
    /// Skip this number of values, then look at other arguments.
    Skip(usize),
    /// Values up to the next option.
    SkipWords,
    Operand,
    /// After so many values, what runs. If the rest of the argument is empty, the next one names it.
    Runs(usize, WhatRuns, &'a [u8]),
}

impl Interpreter {
    /// Returns true if `name` is the name of the interpreter's file, which may end with a version: `python3.13`, or `python3.14t` and
    /// `python3-dbg` of builds of CPython.
    pub(super) fn is_named(&self, name: &[u8]) -> bool {
        let is_version = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
        let build = [&b"-dbg"[..], b"t", b"d"].iter().find_map(|build| name.strip_suffix(*build));
        let name = build.filter(|version| version.last().is_some_and(u8::is_ascii_digit)).unwrap_or(name);
        let end = name.iter().rposition(|byte| !is_version(byte)).map_or(0, |last| last + 1);
        self.names.split(' ').any(|listed| matches(listed, &name[..end]) || matches(listed, name))
    }

    /// Returns the name of what runs with these arguments, without the interpreter itself, and takes them up to it.
    pub(super) fn runs<'a>(
        &self,
        arguments: &mut impl Iterator<Item = &'a [u8]>,
        is_file: &dyn Fn(&[u8]) -> bool,
    ) -> Option<&'a [u8]> {
        let mut argument = arguments.next()?;
        if !self.subcommand.is_empty() && argument == self.subcommand.as_bytes() {
            argument = arguments.next()?;
        }
        let (runs, named) = loop {
            if !self.is_option(argument) {
                break (self.operand, argument);
            }
            match self.option(argument)? {
                FoundOption::Skip(values) => argument = arguments.nth(values)?,
                FoundOption::SkipWords => argument = arguments.find(|argument| self.is_option(argument))?,
                FoundOption::Operand => break (self.operand, arguments.next()?),
                FoundOption::Runs(_, runs, rest) if !rest.is_empty() => break (runs, rest),
                FoundOption::Runs(values, runs, _) => break (runs, arguments.nth(values)?),
            }
        };
        runs.name(named, is_file)
    }

    fn is_option(&self, argument: &[u8]) -> bool {
        matches!(argument, [sign, _, ..] if self.signs.as_bytes().contains(sign))
    }

    /// Returns the consequence of an argument with options; `None` if one of the options is not listed.
    fn option<'a>(&self, argument: &'a [u8]) -> Option<FoundOption<'a>> {
        let words = self.options.iter().flat_map(|(follows, list)| list.split(' ').map(|option| (*follows, option)));
        for (follows, option) in words.filter(|(_, option)| !is_letter(option)) {
            let value = argument.strip_prefix(option.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
            match (follows, value) {
                (Follows::Runs(runs), Some(value)) if !value.is_empty() => {
                    return Some(FoundOption::Runs(0, runs, value));
                }
                (Follows::Runs(_), Some(_)) => return None,
                (_, Some(_)) => return Some(FoundOption::Skip(0)),
                (_, None) if !matches(option, argument) => {}
                (Follows::Word | Follows::NextWord, None) => return Some(FoundOption::Skip(1)),
                (Follows::Words, None) => return Some(FoundOption::SkipWords),
                (Follows::Operand, None) => return Some(FoundOption::Operand),
                (Follows::Runs(runs), None) => return Some(FoundOption::Runs(0, runs, b"")),
                (Follows::Nothing | Follows::Digits | Follows::Rest, None) => return Some(FoundOption::Skip(0)),
            }
        }
        self.letters(&argument[1..])
    }

    /// Returns the consequence of an argument's letters.
    fn letters<'a>(&self, mut letters: &'a [u8]) -> Option<FoundOption<'a>> {
        let mut values = 0;
        while let [letter, rest @ ..] = letters {
            let is_it = |option: &str| is_letter(option) && option.as_bytes()[1] == *letter;
            let (follows, _) = self.options.iter().find(|(_, list)| list.split(' ').any(is_it))?;
            letters = rest;
            match follows {
                Follows::Nothing => {}
                Follows::Digits => {
                    let end = rest.iter().position(|byte| !matches!(byte, b'0'..=b'7')).unwrap_or(rest.len());
                    letters = &rest[end..];
                }
                Follows::NextWord => values += 1,
                // Interpreters divide the first line of a script at spaces.
                Follows::Rest if rest.iter().any(u8::is_ascii_whitespace) => return None,
                Follows::Rest => break,
                Follows::Word => return Some(FoundOption::Skip(values + usize::from(rest.is_empty()))),
                Follows::Runs(runs) => return Some(FoundOption::Runs(values, *runs, rest)),
                Follows::Words if rest.is_empty() => return Some(FoundOption::SkipWords),
                Follows::Words | Follows::Operand => return None,
            }
        }
        Some(FoundOption::Skip(values))
    }
}

impl WhatRuns {
    /// Returns the name that an argument gives to what runs.
    fn name<'a>(self, argument: &'a [u8], is_file: &dyn Fn(&[u8]) -> bool) -> Option<&'a [u8]> {
        let is_named = match self {
            Self::File | Self::Program => is_file(argument),
            Self::FileEnding(ends) => {
                ends.split(' ').any(|end| argument.ends_with(end.as_bytes())) && is_file(argument)
            }
            Self::FileWithout(ends) => {
                let ends = || ends.split(' ').map(str::as_bytes).filter(|_| !base_name(argument).starts_with(b"."));
                is_file(argument) || ends().any(|end| is_file(&[argument, end].concat()))
            }
            Self::Module => argument.split(|&byte| byte == b'.').all(is_identifier),
            Self::Class => is_file(argument) || argument.split(|&byte| matches!(byte, b'.' | b'/')).all(is_identifier),
            Self::Nothing => false,
        };
        // What comes through a pipe, or was there only while the interpreter started.
        let is_device = argument.starts_with(b"/dev/") && !argument.starts_with(b"/dev/shm/");
        let is_stream = is_device || argument.starts_with(b"/proc/");
        Some(base_name(argument)).filter(|_| is_named && !is_stream)
    }
}

/// Returns the last part of a path.
pub(crate) fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or_default()
}

fn is_letter(option: &str) -> bool {
    option.len() == 2 && option != "--"
}

/// Returns true if `text` matches `pattern`, in which a `*` at the end stands for any characters.
fn matches(pattern: &str, text: &[u8]) -> bool {
    match pattern.strip_suffix('*') {
        Some(front) => text.starts_with(front.as_bytes()),
        None => text == pattern.as_bytes(),
    }
}

/// Whether a part of a name is an identifier of Python and Java, in ASCII.
fn is_identifier(part: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
    part.first().is_some_and(|first| !first.is_ascii_digit()) && part.iter().all(is_part)
}

//! A command, and how it is started.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::unistd::{AccessFlags, access};

use crate::sys::affinity::start_on;

/// A command to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The program, found in `PATH` if it has no slash.
    pub program: OsString,
    /// The arguments after the name of the program.
    pub arguments: Vec<OsString>,
    /// Standard streams of the command.
    pub streams: Streams,
    /// CPUs that the command may run on; ctprof's own if empty.
    pub cpus: Vec<u32>,
}

/// The standard streams of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// Standard streams of ctprof.
    Inherited,
    /// Empty input, and output to standard error.
    ToStderr,
    /// Empty input, and output that is discarded.
    Discarded,
}

impl Invocation {
    /// A program with the streams and CPUs of ctprof.
    pub fn new(program: &OsStr, arguments: &[OsString]) -> Self {
        let (program, arguments) = (program.to_owned(), arguments.to_vec());
        Self { program, arguments, streams: Streams::Inherited, cpus: Vec::new() }
    }

    /// A script of `sh`, with the CPUs of ctprof.
    pub fn shell(script: &str, streams: Streams) -> Self {
        Self { streams, ..Self::new(OsStr::new("sh"), &["-c".into(), script.into()]) }
    }

    /// A command of words, as `sh` splits them, with the CPUs of ctprof; `None` without a word, or if a quote is not closed.
    pub fn words(text: &str, streams: Streams) -> Option<Self> {
        let words: Vec<_> = shlex::split(text)?.into_iter().map(OsString::from).collect();
        let (program, arguments) = words.split_first()?;
        Some(Self { streams, ..Self::new(program, arguments) })
    }

    /// The program as a script of `sh`, as shells and the execvp(3) of glibc run one without `#!`. That of musl does not.
    pub(super) fn as_script(&self) -> Self {
        let path = find_in_path(&self.program).map_or_else(|| self.program.clone(), PathBuf::into_os_string);
        let arguments = [&[path][..], &self.arguments].concat();
        Self { arguments, ..Self { program: "sh".into(), ..self.clone() } }
    }

    pub(super) fn prepared(&self) -> Command {
        let Self { program, arguments, streams, cpus } = self;
        let mut command = Command::new(program);
        command.args(arguments);
        match streams {
            Streams::Inherited => {}
            Streams::ToStderr => _ = command.stdin(Stdio::null()).stdout(io::stderr()),
            Streams::Discarded => _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()),
        }
        if !cpus.is_empty() {
            start_on(&mut command, cpus);
        }
        command
    }
}

/// The file that is executed for a program without a slash.
pub(super) fn find_in_path(program: &OsStr) -> Option<PathBuf> {
    let directories = env::var_os("PATH").filter(|_| !program.as_bytes().contains(&b'/'))?;
    env::split_paths(&directories)
        .map(|directory| directory.join(program))
        .find(|path| path.is_file() && access(path, AccessFlags::X_OK).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_without_an_interpreter_is_run_by_sh() {
        let script = |program: &str| {
            let Invocation { program, arguments, .. } =
                Invocation::new(OsStr::new(program), &["a b".into()]).as_script();
            [vec![program], arguments].concat()
        };
        assert_eq!(script("./bench"), ["sh", "./bench", "a b"]);
        let [sh, path, word] = &script("env")[..] else { panic!("three words") };
        assert!(sh == "sh" && word == "a b" && path.to_str().unwrap().ends_with("/env"));
    }

    #[test]
    fn words_are_split_at_blanks_outside_of_quotes() {
        let all = |text| {
            let Invocation { program, arguments, .. } = Invocation::words(text, Streams::Discarded)?;
            let words = [vec![program], arguments].concat();
            Some(words.join(OsStr::new("|")).into_string().unwrap())
        };
        for (text, split) in [
            (" gzip  -kf\tx ", "gzip|-kf|x"),
            (r#"a 'b c' "d 'e'"'f' "#, "a|b c|d 'e'f"),
            (r#"a\ b "\"" '\' """#, r#"a b|"|\|"#),
            ("a $HOME;b*", "a|$HOME;b*"),
        ] {
            assert_eq!(all(text).as_deref(), Some(split), "{text}");
        }
        assert_eq!(["a 'b", "\"", "a\\"].map(all), [const { None }; 3]);
        assert!(Invocation::words("  ", Streams::Discarded).is_none());
    }
}

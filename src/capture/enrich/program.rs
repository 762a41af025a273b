//! The name of the script, module or main class that an interpreter runs. Only this name is kept of the command line.

use std::io::Read;

use super::super::process::Process;
use super::names::base_name;
use crate::model::{Name, printable};

/// An interpreter, and how its options differ from the name of what it runs. A long option that is in no list may have a
/// separate value: then nothing is said.
struct Interpreter {
    /// The names of its processes, without a version.
    names: &'static str,
    /// Letters of options after which the name of a module or file follows.
    name: &'static str,
    /// Letters of options with code, or without a file.
    code: &'static str,
    /// Letters of options with a value, in the same argument or in the next one.
    value: &'static str,
    /// Letters of options whose value is in the same argument.
    attached: &'static str,
    /// Whole options after which the name follows, whose value is the next argument, and those without a value. A `*` at the
    /// end stands for any characters.
    words: [&'static str; 3],
}

/// An interpreter without options.
const PLAIN: Interpreter = Interpreter { names: "", name: "", code: "", value: "", attached: "", words: [""; 3] };

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        names: "python pypy",
        name: "m",
        code: "c",
        value: "WXQ",
        words: ["", "--check-hash-based-pycs", ""],
        ..PLAIN
    },
    Interpreter {
        names: "java",
        words: [
            "-jar -m --module",
            "-cp -classpath --class-path -p --module-path --upgrade-module-path --add-modules --add-reads --add-exports \
             --add-opens --limit-modules --patch-module --source --enable-native-access",
            "--enable-preview",
        ],
        ..PLAIN
    },
    Interpreter {
        names: "node nodejs",
        code: "ep",
        value: "rC",
        words: [
            "",
            "--require --import --loader --experimental-loader --conditions --env-file --title",
            "--inspect --inspect-brk --expose-gc --enable-source-maps --watch --no-* --trace-*",
        ],
        ..PLAIN
    },
    Interpreter {
        names: "ruby",
        code: "e",
        value: "ICEr",
        attached: "KTWx0Fi",
        words: ["", "", "--jit --yjit"],
        ..PLAIN
    },
    Interpreter { names: "perl", code: "eE", value: "I", attached: "MmixFlDC0", ..PLAIN },
    Interpreter { names: "php", name: "f", code: "rRBESs", value: "dczt", words: ["--file", "", ""], ..PLAIN },
    Interpreter {
        names: "sh bash dash ash zsh ksh busybox",
        code: "cs",
        value: "oO",
        words: ["", "--rcfile --init-file", "--login --norc --noprofile --posix --verbose"],
        ..PLAIN
    },
    Interpreter { names: "lua luajit Rscript tclsh", code: "e", value: "l", ..PLAIN },
];

/// What follows an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follows {
    /// The name.
    Name,
    /// Its value.
    Value,
    /// The next argument, or the name.
    Anything,
}

/// Longer command lines are cut.
const MOST_BYTES: u64 = 64 * 1024;
/// Longer names are left out.
const LONGEST: usize = 128;

/// The name of what the process runs; `None` if its name is not that of an interpreter.
pub(super) fn of(process: &Process, name: &str) -> Option<Name> {
    interpreter(name)?;
    let mut arguments = Vec::new();
    process.directory.file("cmdline").ok()?.take(MOST_BYTES).read_to_end(&mut arguments).ok()?;
    // What is cut has no end.
    program_of(name, arguments.strip_suffix(b"\0")?.split(|&b| b == 0))
}

/// As [`of`], of the arguments of a process, of which the first is its program.
pub(crate) fn program_of<'a>(name: &str, arguments: impl IntoIterator<Item = &'a [u8]>) -> Option<Name> {
    let path = interpreter(name)?.program(&mut arguments.into_iter().skip(1))?;
    // Scripts that come through a pipe have a number.
    let is_stream = path.starts_with(b"/dev/") || path.starts_with(b"/proc/");
    let program = Some(base_name(path)).filter(|_| !is_stream)?;
    (!program.is_empty() && program.len() <= LONGEST).then(|| printable(program).into())
}

/// The interpreter whose processes have this name, which may end with a version: `python3.13`.
fn interpreter(name: &str) -> Option<&'static Interpreter> {
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    INTERPRETERS.iter().find(|interpreter| interpreter.names.split(' ').any(|known| known == name))
}

impl Interpreter {
    /// The path, or the name, of what runs with these arguments.
    fn program<'a>(&self, arguments: &mut impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
        loop {
            let argument = arguments.next()?;
            match argument {
                b"-" => return None,
                b"--" => return arguments.next(),
                [b'-' | b'+', option @ ..] => match self.option(argument, option)? {
                    (Follows::Name, b"") => return arguments.next(),
                    (Follows::Name, rest) => return Some(rest),
                    (Follows::Value, _) => drop(arguments.next()?),
                    (Follows::Anything, _) => {}
                },
                // A list of arguments in a file.
                [b'@', ..] => return None,
                name => return Some(name),
            }
        }
    }

    /// What follows an option, and the rest of its argument; `None` if there is code, or if it is unknown.
    fn option<'a>(&self, argument: &[u8], option: &'a [u8]) -> Option<(Follows, &'a [u8])> {
        let is_it = |word: &str| match word.strip_suffix('*') {
            Some(front) => argument.starts_with(front.as_bytes()),
            None => argument == word.as_bytes(),
        };
        let kinds = [Follows::Name, Follows::Value, Follows::Anything];
        if let Some((_, kind)) = self.words.iter().zip(kinds).find(|(words, _)| words.split(' ').any(is_it)) {
            return Some((kind, b""));
        }
        if option.starts_with(b"-") {
            return option.contains(&b'=').then_some((Follows::Anything, b""));
        }
        for (at, letter) in option.iter().enumerate() {
            let (is, rest) = (|letters: &str| letters.as_bytes().contains(letter), &option[at + 1..]);
            if is(self.code) {
                return None;
            } else if is(self.name) {
                return Some((Follows::Name, rest));
            } else if is(self.value) {
                return Some((if rest.is_empty() { Follows::Value } else { Follows::Anything }, rest));
            } else if is(self.attached) {
                break;
            }
        }
        Some((Follows::Anything, b""))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::procfs::directory::ProcDirectory;
    use super::*;

    fn program(name: &str, arguments: &[u8]) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("cmdline"), arguments).unwrap();
        let process = Process::new(7, ProcDirectory::open(dir.path()).unwrap());
        of(&process, name).map(|name| name.to_string())
    }

    #[test]
    fn of_a_command_line_only_the_name_of_the_program_is_kept() {
        for (name, arguments, expected) in [
            ("python3", "python3 /srv/app/manage.py runserver --password=x", "manage.py"),
            ("python3.13", "python3.13 -u -W ignore -Xdev manage.py x", "manage.py"),
            ("python3", "/usr/bin/python3 -Im http.server 80", "http.server"),
            (
                "java",
                "java -Xmx1g -cp /a:/b --add-opens java.base/x=ALL -Dp=secret org.apache.Kafka x",
                "org.apache.Kafka",
            ),
            ("java", "java -ea -jar /opt/app/app.jar secret", "app.jar"),
            ("java", "java --module-path m --module app/app.Main secret", "app.Main"),
            ("node", "node --max-old-space-size=1 -r /x/hook.js server/index.js secret", "index.js"),
            ("node", "node --env-file secret index.js", "index.js"),
            ("ruby", "ruby -I lib bin/rails s", "rails"),
            ("perl", "perl -w -Ilib -l script.pl secret", "script.pl"),
            ("bash", "bash -euo pipefail ./build.sh secret", "build.sh"),
            ("sh", "/bin/sh -- run.sh secret", "run.sh"),
            ("php", "php -d x=y -f job.php secret", "job.php"),
        ] {
            let found = program(name, format!("{arguments}\0").replace(' ', "\0").as_bytes());
            assert_eq!(found.as_deref(), Some(expected), "{arguments}");
        }
    }

    #[test]
    fn what_may_be_code_or_a_value_is_no_name() {
        for (name, arguments) in [
            ("python3", "python3 -c secret x.py"),
            ("python3", "python3 -Ec secret"),
            ("python3", "python3 --tomorrow secret x.py"),
            ("python3", "python3 - secret"),
            ("python3", "python3"),
            ("node", "node -pe secret"),
            ("node", "node --eval secret"),
            ("node", "node --tomorrow secret index.js"),
            ("java", "java @secret Main"),
            ("java", "java --tomorrow secret Main"),
            ("bash", "bash -lc secret"),
            ("bash", "-bash"),
            ("bash", "bash /dev/fd/63 secret"),
            ("perl", "perl -ne secret file"),
            ("ruby", "ruby -e secret"),
            ("postgres", "postgres: secret idle"),
            ("vim", "vim secret"),
            ("python-secret", "python-secret x.py"),
        ] {
            let found = program(name, format!("{arguments}\0").replace(' ', "\0").as_bytes());
            assert_eq!(found, None, "{arguments}");
        }
        assert_eq!(program("python3", b"python3\0manage.p"), None, "cut");
        let long = [b"python3\0", &[b'x'; 200][..], b"\0"].concat();
        assert_eq!(program("python3", &long), None);
    }
}

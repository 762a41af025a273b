//! Command lines of interpreters by their manuals.

use proptest::prelude::*;

use super::grammar::{Follows, WhatRuns};
use super::interpreters::INTERPRETERS;
use super::*;
use crate::model::Name;

/// The name of a process with this executed file and these arguments, where the files that contain `FILE` exist.
fn named(exe: &str, arguments: &[u8]) -> Option<String> {
    let comm = String::from_utf8_lossy(base_name(exe.as_bytes())).chars().take(15).collect::<String>();
    let started = StartedProgram { comm: &comm, exe: Some(exe.as_bytes()), arguments };
    started.name(&|path| String::from_utf8_lossy(path).contains("FILE")).map(|name: Name| name.to_string())
}

/// Calls [`named`] with words between spaces, starting with the executed file.
fn program_of(line: &str) -> Option<String> {
    named(line.split(' ').next().unwrap(), format!("{line}\0").replace(' ', "\0").as_bytes())
}

#[test]
fn the_name_is_that_of_the_file_module_or_class_that_runs() {
    for (line, expected) in [
        ("/usr/bin/python3.13 -u -W ignore -Xdev /srv/FILE.py secret-FILE", "FILE.py"),
        ("/usr/bin/python3 -Im http.server 80", "http.server"),
        ("python3 -OO -- FILE.py", "FILE.py"),
        ("perl -w -Ilib -l /FILE.pl secret", "FILE.pl"),
        ("perl -lan -F: -i.bak -MList::Util=sum -0777 FILE.pl secret", "FILE.pl"),
        ("perl -d:NYTProf FILE.pl", "FILE.pl"),
        ("ruby3.1 -W0 -rjson -I lib --disable-gems bin/FILE s", "FILE"),
        ("ruby -W:no-deprecated -Ku FILE.rb", "FILE.rb"),
        ("node --max-old-space-size=1 -r /x/hook.js server/FILE.js secret", "FILE.js"),
        ("node --env-file secret --title=secret FILE.js", "FILE.js"),
        ("bun run --hot FILE.ts secret", "FILE.ts"),
        ("bun FILE.ts", "FILE.ts"),
        ("deno run -A --unstable-kv --config secret FILE.ts", "FILE.ts"),
        ("dotnet exec --depsfile secret.json /app/FILE.dll secret", "FILE.dll"),
        ("dotnet FILE.dll secret", "FILE.dll"),
        ("mono --debug FILE.exe", "FILE.exe"),
        ("java -Xmx1g -cp /a:/b --add-opens java.base/x=ALL -Dp=secret org.apache.Kafka x", "org.apache.Kafka"),
        ("java -ea -jar /opt/app/FILE.jar secret", "FILE.jar"),
        ("java --module-path m --module app/app.Main secret", "app.Main"),
        ("java --module=app/app.Main secret", "app.Main"),
        (
            "beam.smp -W w -MBas ageffcbf -MHas ageffcbf -MMmcs 30 -pc unicode -P 1048576 -t 5000000 -stbt db -zdbbl 128000 -B i -- -root /usr/lib/erlang -progname erl -- -home /var/lib/rabbitmq -- -pa -noshell -noinput -s rabbit boot -boot start_sasl -syslog logger []",
            "rabbit",
        ),
        ("beam.smp -W w -sbwt none -- -root /usr/lib -- -home / -- -pa a b -noshell -s rabbit boot", "rabbit"),
        ("bash -euo pipefail ./FILE.sh secret", "FILE.sh"),
        ("bash /dev/shm/FILE.sh secret", "FILE.sh"),
        ("bash -oO pipefail globstar +x FILE.sh secret", "FILE.sh"),
        ("/bin/sh -- FILE.sh secret", "FILE.sh"),
        ("zsh -o extendedglob -f FILE", "FILE"),
        ("fish --private FILE.fish", "FILE.fish"),
        ("tcsh -f FILE", "FILE"),
        ("php8.2 -d x=y -f FILE.php secret", "FILE.php"),
        ("php -n artisan-FILE serve", "artisan-FILE"),
        ("/usr/lib/R/bin/exec/R --no-echo --no-restore --file=/x/FILE.R --args secret", "FILE.R"),
        ("Rscript --vanilla FILE.R secret", "FILE.R"),
        ("julia -t 4 --project=. --startup-file no FILE.jl secret", "FILE.jl"),
        ("lua5.4 -l secret FILE.lua secret", "FILE.lua"),
        ("luajit-2.1.0-beta3 -O3 FILE.lua", "FILE.lua"),
        ("tclsh8.6 -encoding utf-8 FILE.tcl", "FILE.tcl"),
        ("expect -d -f FILE.exp secret", "FILE.exp"),
        ("guile --no-auto-compile -L lib -s FILE.scm secret", "FILE.scm"),
        ("gawk -F : -v x=secret -f FILE.awk secret", "FILE.awk"),
        ("/lib64/ld-linux-x86-64.so.2 --library-path /lib /bin/FILEsum secret", "FILEsum"),
        ("/lib/ld-musl-x86_64.so.1 /FILE/python3 -u FILE.py secret", "FILE.py"),
        ("/lib64/ld-linux-x86-64.so.2 /FILE/perl -e secret", "perl"),
        ("/usr/bin/python3.14t FILE.py", "FILE.py"),
        ("/usr/bin/python3-dbg FILE.py", "FILE.py"),
    ] {
        assert_eq!(program_of(line).as_deref(), Some(expected), "{line}");
    }
}

#[test]
fn node_finds_a_script_without_its_end() {
    for file in ["dist/main.js", "dist/main/index.js", "dist/main.mjs"] {
        let started =
            StartedProgram { comm: "MainThread", exe: Some(b"/usr/bin/node"), arguments: b"node\0dist/main\0" };
        assert_eq!(started.name(&|path| path == file.as_bytes()).as_deref(), Some("main"), "{file}");
    }
    assert_eq!(program_of("node ."), None);
}

#[test]
fn code_values_and_arguments_are_no_names_even_if_files_have_them() {
    for line in [
        "python3 -c FILE FILE",
        "python3 -Ec FILE FILE",
        "python3 -cFILE FILE",
        "python3 --tomorrow FILE FILE",
        "python3 - FILE",
        "python3 +x FILE",
        "python3",
        "python3 -m sec-ret/FILE",
        "perl -lne FILE FILE",
        "perl -F, -lane FILE FILE",
        "perl -0777ne FILE FILE",
        "perl -00pe FILE FILE",
        "perl -l012e FILE FILE",
        "perl -Mstrict -ne FILE FILE",
        "perl -de FILE FILE",
        "perl -i -pe FILE FILE",
        "perl -CSe FILE FILE",
        "perl -0xFFe FILE FILE",
        "ruby -W0e FILE FILE",
        "ruby -ne FILE FILE",
        "ruby -Kue FILE FILE",
        "node -pe FILE FILE",
        "node --eval FILE FILE",
        "node --max-old-space-size FILE FILE",
        "bun -e FILE FILE",
        "bun --hot run FILE",
        "deno eval FILE",
        "dotnet run FILE.dll",
        "dotnet secret FILE.dll",
        "java @FI_LE Main",
        "java --tomorrow FILE Main",
        "java -jar secret.jar Main",
        "beam.smp -- -noshell -eval FILE -s secret",
        "beam.smp -- -noshell -extra FILE",
        "bash -lc FILE FILE",
        "bash -euoc FILE FILE",
        "bash -s FILE",
        "bash /dev/fd/FILE secret",
        "bash /dev/FILE",
        "sh -c FILE FILE",
        "zsh -fc FILE FILE",
        "fish -c FILE FILE",
        "php -r FILE FILE",
        "php -- FILE",
        "php -S FILE FILE",
        "R --no-echo -e FILE --args FILE",
        "R FILE",
        "Rscript -e FILE FILE",
        "julia -e FILE FILE",
        "julia --eval=FILE FILE",
        "lua -e FILE FILE",
        "luajit -b FILE FILE",
        "expect -c FILE FILE",
        "guile -c FILE FILE",
        "gawk FILE FILE",
        "gawk -F : FILE FILE",
        "/lib64/ld-linux-x86-64.so.2 --list /bin/FILE",
        "/lib64/ld-linux-x86-64.so.2 --preload FILE secret",
        "postgres FILE",
        "python-secret FILE.py",
    ] {
        assert_eq!(program_of(line), None, "{line}");
    }
    assert_eq!(named("/bin/perl", b"perl\0-i.bak -e\0FILE\0"), None);
}

#[test]
fn a_cut_argument_and_a_long_name_are_no_names() {
    assert_eq!(named("/bin/python3", b"python3\0-u\0FILE.p"), None);
    assert_eq!(named("/bin/python3", b"python3\0FILE.py\0secr"), Some("FILE.py".to_owned()));
    assert_eq!(named("/bin/python3", b"postgres: FILE"), None);
    assert_eq!(named("/bin/python3", &[b"python3\0FILE", &[b'x'; 200][..], b"\0"].concat()), None);
}

#[test]
fn a_program_that_a_descriptor_started_has_the_name_of_its_file() {
    let name = |comm, exe: &str, arguments| {
        let started = StartedProgram { comm, exe: Some(exe.as_bytes()), arguments };
        started.name(&|path| path == b"job.py").map(|name| name.to_string())
    };
    for (comm, exe, expected) in [
        ("3", "/usr/bin/sha1sum", Some("sha1sum")),
        ("12", "/usr/bin/sha1sum (deleted)", Some("sha1sum")),
        ("3", "/memfd:runc_cloned:/proc/self/exe (deleted)", Some("memfd:runc_cloned")),
        ("3", "/memfd:job (deleted)", Some("memfd:job")),
        ("3", "/memfd: (deleted)", Some("memfd:")),
        ("2048", "/usr/games/2048", None),
        ("sha1sum", "/usr/bin/coreutils", None),
    ] {
        assert_eq!(name(comm, exe, b"secret\0").as_deref(), expected, "{comm} {exe}");
    }
    assert_eq!(name("3", "/usr/bin/python3.13", b"python3\0job.py\0").as_deref(), Some("job.py"));
    assert_eq!(name("3", "/usr/bin/python3.13", b"python3\0-c\0job.py\0").as_deref(), Some("python3.13"));
    assert_eq!(name("job.py", "/usr/bin/python3.13", b"python3\0job.py\0"), None, "its own name says it");
}

/// A file that interpreters run, other files, options of an interpreter, and any other text.
fn word(options: Vec<String>) -> impl Strategy<Value = String> {
    prop_oneof![
        Just("/srv/exists.dll".to_owned()),
        Just("--".to_owned()),
        "[a-z]{1,4}".prop_map(|value| format!("Secret{value}")),
        "[a-z .;-]{1,6}".prop_map(|code| format!("Secret-{code}")),
        "[-+][a-zA-Z0-9]{1,4}",
        "[-+]{1,2}[a-zA-Z0-9=:*-]{1,8}",
        prop::sample::select(options.clone()),
        (prop::sample::select(options), "=?Secret[a-z.=-]{0,4}").prop_map(|(option, value)| option + &value),
    ]
}

proptest! {
    /// `Secret` stands for code, values and arguments. `-m` of Python and the operand of java name what no file has.
    #[test]
    fn no_text_of_a_command_line_that_is_no_file_module_or_class_is_ever_a_name(
        (interpreter, words) in (0..INTERPRETERS.len()).prop_flat_map(|at| {
            let lists = INTERPRETERS[at].options.iter().flat_map(|(_, list)| list.split(' '));
            let options = lists.map(|option| option.trim_end_matches('*').to_owned()).chain(["-".to_owned()]);
            (Just(at), prop::collection::vec(word(options.collect()), 0..8))
        })
    ) {
        let interpreter = &INTERPRETERS[interpreter];
        let exe = interpreter.names.split(' ').next().unwrap().trim_end_matches('*');
        let arguments = [&[exe.to_owned()], &words[..]].concat().iter().flat_map(|word| word.bytes().chain([0])).collect::<Vec<_>>();
        let started = StartedProgram { comm: exe, exe: Some(exe.as_bytes()), arguments: &arguments };
        if let Some(name) = started.name(&|path| path == b"/srv/exists.dll") {
            let is_file = &*name == "exists.dll";
            let is_identifiers = name.chars().all(|c| c.is_ascii_alphanumeric() || "._$".contains(c));
            let is_other = |runs: WhatRuns| matches!(runs, WhatRuns::Module | WhatRuns::Class);
            let has_others = |follows: &Follows| matches!(follows, Follows::Runs(runs) if is_other(*runs));
            let names_others = interpreter.options.iter().any(|(follows, _)| has_others(follows));
            prop_assert!(is_file || is_identifiers && names_others, "{name:?} of {words:?}");
        }
    }

    /// A letter that no row lists ends the search, wherever it stands.
    #[test]
    fn an_unknown_letter_among_options_ends_the_search(
        at in 0..INTERPRETERS.len(), letters in "[a-zA-Z0-9]{1,5}", code in prop::sample::select(vec!["exists.dll", "-x"])
    ) {
        let interpreter = &INTERPRETERS[at];
        let exe = interpreter.names.split(' ').next().unwrap().trim_end_matches('*');
        let is_known = |letter: char| {
            let option = format!("-{letter}");
            interpreter.options.iter().any(|(_, list)| list.split(' ').any(|listed| listed == option))
        };
        let first_known = letters.chars().next().is_some_and(is_known);
        let is_listed = interpreter.options.iter().any(|(_, list)| {
            list.split(' ').any(|listed| format!("-{letters}").starts_with(listed.trim_end_matches('*')))
        });
        prop_assume!(!first_known && !is_listed);
        let arguments = format!("{exe}\0-{letters}\0{code}\0exists.dll\0");
        let started = StartedProgram { comm: exe, exe: Some(exe.as_bytes()), arguments: arguments.as_bytes() };
        prop_assert_eq!(started.name(&|_| true), None);
    }
}

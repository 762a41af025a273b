//! Interpreters and their options, by their manuals. An option that is not here ends the search for a name: options with code
//! must not be listed.

use super::grammar::Follows::{Digits, NextWord, Nothing, Operand, Rest, Runs as Names, Word, Words};
use super::grammar::{Follows, Interpreter, PLAIN, WhatRuns};

/// Option `--`, after which nothing is an option.
const END: (Follows, &str) = (Operand, "--");

pub(super) const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        names: "python pypy",
        options: &[
            (Nothing, "-b -B -d -E -i -I -O -P -q -R -s -S -t -u -v -x -3"),
            (Word, "-W -X -Q --check-hash-based-pycs --jit"),
            (Names(WhatRuns::Module), "-m"),
            END,
        ],
        ..PLAIN
    },
    Interpreter {
        names: "perl",
        options: &[
            (Nothing, "-a -c -f -g -n -p -s -S -t -T -u -U -w -W -X -CS -CSD -CSA -CSDA -CSAD -d:*"),
            (Digits, "-0 -l"),
            (Rest, "-F -i -m -M"),
            (Word, "-I"),
            END,
        ],
        ..PLAIN
    },
    Interpreter {
        names: "ruby",
        options: &[
            (Nothing, "-a -c -d -l -n -p -s -S -U -v -w -W:* -Ku -KU -Kn -KN"),
            (Nothing, "--jit* --mjit* --rjit* --yjit* --zjit* --verbose --debug --debug-frozen-string-literal"),
            (Nothing, "--enable-* --disable-*"),
            (Digits, "-0 -T -W"),
            (Rest, "-F -i"),
            (Word, "-C -E -I -r -X --enable --disable --encoding --external-encoding --internal-encoding"),
            END,
        ],
        ..PLAIN
    },
    Interpreter {
        names: "node nodejs",
        options: &[
            (Nothing, "--inspect --inspect-brk --inspect-wait --watch --watch-preserve-output --enable-source-maps"),
            (Nothing, "--no-warnings --no-deprecation --throw-deprecation --pending-deprecation --trace-warnings"),
            (Nothing, "--trace-deprecation --trace-uncaught --trace-exit --trace-sigint --trace-sync-io --trace-gc"),
            (Nothing, "--abort-on-uncaught-exception --preserve-symlinks --preserve-symlinks-main --zero-fill-buffers"),
            (Nothing, "--experimental-vm-modules --experimental-modules --experimental-json-modules"),
            (Nothing, "--experimental-strip-types --experimental-transform-types --experimental-wasm-modules"),
            (Nothing, "--experimental-fetch --experimental-worker --no-experimental-fetch --cpu-prof --heap-prof"),
            (Nothing, "--prof --expose-gc --expose_gc --jitless --use-openssl-ca --use-bundled-ca"),
            (Nothing, "--openssl-legacy-provider --frozen-intrinsics --insecure-http-parser"),
            (Nothing, "--max-old-space-size=* --max_old_space_size=* --max-semi-space-size=* --stack-size=*"),
            (Word, "-r -C --require --import --loader --experimental-loader --conditions --env-file"),
            (Word, "--env-file-if-exists --title --icu-data-dir --openssl-config --redirect-warnings"),
            (Word, "--diagnostic-dir --cpu-prof-dir --cpu-prof-name --heap-prof-dir --heap-prof-name"),
            (Word, "--unhandled-rejections --dns-result-order --inspect-port --disable-proto --disable-warning"),
            (Word, "--max-http-header-size --watch-path --experimental-default-type --tls-cipher-list"),
            (Word, "--experimental-specifier-resolution --trace-event-categories --trace-event-file-pattern"),
            END,
        ],
        operand: WhatRuns::FileWithout(".js /index.js .mjs .cjs"),
        ..PLAIN
    },
    Interpreter {
        names: "bun",
        subcommand: "run",
        options: &[
            (Nothing, "--bun -b --hot --watch --smol --silent --no-clear-screen --prefer-offline"),
            (Word, "--cwd --env-file -r --preload"),
        ],
        ..PLAIN
    },
    Interpreter {
        names: "deno",
        subcommand: "run",
        options: &[
            (Nothing, "-A --allow-* --deny-* -q --quiet --cached-only --no-check --check --no-config --no-lock"),
            (Nothing, "--no-prompt --no-remote --no-npm --inspect --inspect-brk --inspect-wait --watch"),
            (Nothing, "--unstable --unstable-* --node-modules-dir --v8-flags=* --lock=* --reload --env-file"),
            (Word, "-c --config --import-map --cert --location --seed"),
        ],
        ..PLAIN
    },
    Interpreter {
        names: "dotnet",
        subcommand: "exec",
        options: &[(
            Word,
            "--additionalprobingpath --additional-deps --depsfile --runtimeconfig --fx-version --roll-forward",
        )],
        operand: WhatRuns::FileEnding(".dll .exe"),
        ..PLAIN
    },
    Interpreter {
        names: "mono mono-sgen",
        options: &[
            (Nothing, "--debug* --server --desktop --llvm --gc=* --runtime=* -O=* --optimize=*"),
            (Word, "--config"),
        ],
        operand: WhatRuns::FileEnding(".dll .exe"),
        ..PLAIN
    },
    Interpreter {
        names: "java",
        options: &[
            (Nothing, "-X* -D* -ea* -da* -enableassertions* -disableassertions* -esa -dsa -enablesystemassertions"),
            (Nothing, "-disablesystemassertions -server -client -verbose* -agentlib:* -agentpath:* -javaagent:*"),
            (Nothing, "-splash:* -showversion --show-version --enable-preview --show-module-resolution"),
            (Word, "-cp -classpath --class-path -p --module-path --upgrade-module-path --add-modules --add-reads"),
            (Word, "--add-exports --add-opens --limit-modules --patch-module --source --enable-native-access"),
            (Word, "--finalization --illegal-access --sun-misc-unsafe-memory-access --illegal-native-access"),
            (Names(WhatRuns::File), "-jar"),
            (Names(WhatRuns::Class), "-m --module"),
        ],
        operand: WhatRuns::Class,
        ..PLAIN
    },
    Interpreter {
        // Options of the emulator, of erl and of Elixir, divided by `--`.
        names: "beam beam.smp",
        signs: "-+",
        options: &[
            (Words, "-A -a -K -P -Q -S -t -W -SDcpu -SDio -hms -hmbs -sbt -sbwt -sbwtdcpu -sbwtdio -swt -swtdcpu"),
            (
                Words,
                "-swtdio -stbt -scl -sub -zdbbl -M* -B* -pc -smp -mnesia -enable-feature -root -bindir -progname -home -boot_var",
            ),
            (Words, "-sname -name -setcookie -config -args_file -vm_args -kernel -mode -pa -pz -boot -start_epmd"),
            (Words, "-elixir_root -env -logger -sasl -heart -proto_dist -ssl_dist_optfile"),
            (Nothing, "-- -noshell -noinput -hidden -embedded -noinit"),
            (Names(WhatRuns::Module), "-run -s"),
        ],
        operand: WhatRuns::Nothing,
        ..PLAIN
    },
    Interpreter {
        names: "sh bash rbash dash ash ksh ksh93 mksh",
        signs: "-+",
        options: &[
            (Nothing, "-a -b -B -C -e -E -f -h -H -i -k -l -m -n -p -P -r -t -T -u -v -x"),
            (Nothing, "--login --noediting --noprofile --norc --posix --restricted --verbose"),
            (NextWord, "-o -O"),
            (Word, "--rcfile --init-file"),
            END,
        ],
        ..PLAIN
    },
    Interpreter {
        names: "zsh",
        signs: "-+",
        options: &[
            (Nothing, "-a -d -e -f -h -i -k -l -m -n -p -r -t -u -v -x -y --login --no-rcs"),
            (Word, "-o --emulate"),
            END,
        ],
        ..PLAIN
    },
    Interpreter {
        names: "fish",
        options: &[
            (Nothing, "-i -l -n -N -P --interactive --login --no-execute --no-config --private"),
            (Word, "-d -D -f -o -p --debug --debug-output --features --profile --profile-startup"),
            END,
        ],
        ..PLAIN
    },
    Interpreter { names: "csh tcsh", options: &[(Nothing, "-d -e -f -i -n -v -V -x -X")], ..PLAIN },
    Interpreter {
        // Behind `--`, there are only arguments.
        names: "php",
        options: &[
            (Nothing, "-C -e -n -q --no-php-ini --no-header --profile-info"),
            (Word, "-c -d -z --php-ini --define --zend-extension"),
            (Names(WhatRuns::File), "-f --file"),
        ],
        ..PLAIN
    },
    Interpreter {
        names: "R",
        options: &[
            (
                Nothing,
                "--no-echo --slave --no-restore --no-restore-data --no-restore-history --restore --no-save --save",
            ),
            (Nothing, "--no-environ --no-site-file --no-init-file --vanilla --quiet --silent -q -s --verbose"),
            (Nothing, "--no-readline --interactive --max-ppsize=* --max-connections=*"),
            (Word, "--encoding -g --gui"),
            (Names(WhatRuns::File), "-f --file"),
        ],
        operand: WhatRuns::Nothing,
        ..PLAIN
    },
    Interpreter {
        names: "Rscript",
        options: &[
            (
                Nothing,
                "--verbose --vanilla --no-echo --no-restore --no-save --no-environ --no-site-file --no-init-file",
            ),
            (Nothing, "--default-packages=*"),
        ],
        ..PLAIN
    },
    Interpreter {
        names: "julia",
        options: &[
            (Nothing, "-i -q --quiet --project --code-coverage --track-allocation --optimize"),
            (Rest, "-g -O"),
            (Word, "-C -H -J -L -p -t --startup-file --history-file --color --check-bounds --compile --math-mode"),
            (Word, "--inline --banner --depwarn --warn-overwrite --warn-scope --threads --gcthreads --procs --home"),
            (Word, "--sysimage --sysimage-native-code --compiled-modules --pkgimages --cpu-target --heap-size-hint"),
            (Word, "--handle-signals --min-optlevel --machine-file --load"),
            END,
        ],
        ..PLAIN
    },
    Interpreter {
        names: "lua luajit*",
        options: &[(Nothing, "-i -v -E -W"), (Rest, "-O"), (Word, "-l -j"), END],
        ..PLAIN
    },
    Interpreter { names: "tclsh wish", options: &[(Word, "-encoding")], ..PLAIN },
    Interpreter {
        names: "expect",
        options: &[(Nothing, "-d -i -n -N"), (Names(WhatRuns::File), "-f -b"), END],
        ..PLAIN
    },
    Interpreter {
        names: "guile",
        options: &[
            (Nothing, "-q --auto-compile --no-auto-compile --fresh-auto-compile --debug --no-debug --r6rs --r7rs"),
            (Nothing, "--language=* --use-srfi=*"),
            (Word, "-C -e -l -L -x"),
            (Names(WhatRuns::File), "-s"),
            END,
        ],
        ..PLAIN
    },
    Interpreter {
        // Their operand is code.
        names: "awk gawk mawk nawk",
        options: &[(Word, "-F -v --assign --field-separator"), (Names(WhatRuns::File), "-f --file")],
        operand: WhatRuns::Nothing,
        ..PLAIN
    },
    Interpreter {
        // The loader of dynamically linked programs.
        names: "ld-linux* ld-musl-* ld.so ld64.so",
        options: &[
            (Nothing, "--inhibit-cache"),
            (Word, "--library-path --preload --audit --argv0 --inhibit-rpath --glibc-hwcaps-mask"),
            (Word, "--glibc-hwcaps-prepend"),
        ],
        operand: WhatRuns::Program,
        ..PLAIN
    },
];

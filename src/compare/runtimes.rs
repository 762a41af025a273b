//! Functions of languages' runtimes and of libc: they wait on behalf of the function that called them.

use super::static_libc::without_libc;
use crate::model::CodeFunction;

/// Beginnings of the names of a file and of its functions.
type Runtime = (&'static str, &'static str);

/// Runtimes, or parts of runtimes, one per row. An empty text stands for any.
const RUNTIMES: [Runtime; 55] = [
    // C: the library, the loader, the start of programs.
    ("libc.so", ""),
    ("libc-", ""),
    ("libpthread", ""),
    ("ld-linux", ""),
    ("ld-musl", ""),
    ("", "__libc_"),
    ("", "libc_start_main_"),
    // C++.
    ("libstdc++", ""),
    ("libgcc_s", ""),
    ("libc++", ""),
    ("", "std::"),
    ("", "__gthread"),
    ("", "__gnu_cxx::"),
    // Rust.
    ("", "__rust"),
    // CPython.
    ("libpython", "Py"),
    ("libpython", "_Py"),
    ("libpython", "take_gil"),
    ("libpython", "pymain_"),
    ("libpython", "run_mod"),
    ("libpython", "pyrun_"),
    ("libpython", "cfunction"),
    ("libpython", "method_"),
    ("python", "Py"),
    ("python", "_Py"),
    ("python", "pymain_"),
    ("python", "run_mod"),
    ("python", "pyrun_"),
    ("python", "take_gil"),
    ("python", "cfunction"),
    ("python", "method_"),
    // The Java virtual machine.
    ("libjvm", ""),
    ("(jvm)", ""),
    ("libjli", ""),
    ("", "java."),
    ("", "jdk."),
    ("", "sun."),
    // node and its event loop.
    ("libuv", ""),
    ("", "uv_"),
    ("node", "node::"),
    ("libnode", "node::"),
    ("electron", "node::"),
    ("", "v8::"),
    ("", "Builtins_"),
    ("(node)", ""),
    // Go.
    ("", "runtime."),
    ("", "runtime/"),
    ("", "syscall."),
    ("", "internal/"),
    ("", "os.(*"),
    ("", "net.(*"),
    ("", "sync.(*"),
    // What all waits of PostgreSQL are in.
    ("postgres", "WaitEventSet"),
    ("postgres", "WaitLatch"),
    ("postgres", "ProcSleep"),
    ("postgres", "LockAcquire"),
];

/// Runtimes of Rust whose names programs of other languages can have, too.
const OF_RUST: [Runtime; 9] = [
    ("", "core::"),
    ("", "alloc::"),
    ("", "parking_lot"),
    ("", "lock_api::"),
    ("", "crossbeam"),
    ("", "rayon"),
    ("", "mio::"),
    ("", "tokio::"),
    ("", "futures_"),
];
/// Functions of Rust alone. Each thread of Rust begins with one, and what waits by its library ends with one.
const ONLY_OF_RUST: [Runtime; 5] =
    [("", "__rust"), ("", "std::sys::"), ("", "std::rt::"), ("", "std::sync::"), ("", "std::panicking::")];

/// Functions in whose place the stack lacks functions of a program, which they interpret.
const INTERPRETERS: [Runtime; 2] = [("", "Builtins_InterpreterEntryTrampoline"), ("(jvm)", "Interpreter")];
/// The same of CPython. It can put functions of no file in between, to give its callers names.
const NAMING_INTERPRETER: [Runtime; 1] = [("", "_PyEval_EvalFrameDefault")];

/// Removes functions of runtimes from a stack. [`CodeFunction::WITHOUT_FRAMES`] stands for a function of the program that a runtime
/// interprets without a frame.
pub(super) fn of_programs(stack: &str) -> Vec<CodeFunction<'_>> {
    let all: Vec<_> = CodeFunction::all(stack).collect();
    let all = without_libc(&all);
    let callers = all.iter().skip(1).map(Some).chain([None]);
    let without_hidden =
        all.iter().zip(callers).map(|(function, caller)| match hides_another(*function, caller, all) {
            true => CodeFunction::WITHOUT_FRAMES,
            false => *function,
        });
    without_hidden.filter(|function| !is_of_runtime(*function, all)).collect()
}

/// Whether a function of a stack is of a runtime.
fn is_of_runtime(function: CodeFunction<'_>, stack: &[CodeFunction<'_>]) -> bool {
    let is_rust = || stack.iter().any(|other| other.module == function.module && is_in(&ONLY_OF_RUST, *other));
    !function.is_gap() && (is_in(&RUNTIMES, function) || (is_in(&OF_RUST, function) && is_rust()))
}

/// Whether a function of a stack, with this caller, interprets another one, which the stack lacks.
fn hides_another(function: CodeFunction<'_>, caller: Option<&CodeFunction<'_>>, stack: &[CodeFunction<'_>]) -> bool {
    let has_named_caller = || caller.is_some_and(|caller| caller.is_named() && !is_of_runtime(*caller, stack));
    is_in(&INTERPRETERS, function) || (is_in(&NAMING_INTERPRETER, function) && !has_named_caller())
}

fn is_in(rows: &[Runtime], function: CodeFunction<'_>) -> bool {
    rows.iter().any(|(file, name)| function.module.starts_with(file) && function.name.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_something_is_of_no_runtime() {
        let of = |module, name| is_of_runtime(CodeFunction { module, name }, &[]);
        for (module, name) in [
            ("libc.so.6", "__GI___lll_lock_wait"),
            ("libstdc++.so.6", ""),
            ("app", "std::condition_variable::wait"),
            ("app", "std::sync::mpsc::Receiver::recv"),
            ("python3.13", "_PyEval_EvalFrameDefault"),
            ("libpython3.13.so.1.0", "take_gil"),
            ("node", "uv__io_poll"),
            ("(node)", "spawnSync"),
            ("", "java.lang.Object.wait"),
            ("server", "runtime.futex"),
            ("server", "runtime/internal/syscall.Syscall6"),
            ("server", "os.(*File).Sync"),
            ("postgres", "LockAcquireExtended"),
        ] {
            assert!(of(module, name), "{module} {name}");
        }
        for (module, name) in [
            ("convoy", "cache_get"),
            ("libcurl.so.4", "curl_easy_perform"),
            ("redis-server", "flushAppendOnlyFile"),
            ("app", "store::Cache::get"),
            ("python3.13", "time_sleep"),
            ("server", "main.handle"),
            ("postgres", "XactLockTableWait"),
            ("server.js", "handle"),
        ] {
            assert!(!of(module, name), "{module} {name}");
        }
    }

    #[test]
    fn a_function_is_not_of_a_runtime_of_another_language_with_such_names() {
        let named = |stack| of_programs(stack).iter().map(|function| function.name).collect::<Vec<_>>();
        for (stack, program) in [
            ("app:core::Cache::get;app:std::thread::_State_impl::_M_run;libc.so.6:clone3", "core::Cache::get"),
            ("desk:futures_price;libc.so.6:__libc_start_main", "futures_price"),
            ("app:core::Cache::get;librust.so:std::sys::thread::start;app:std::_Invoke", "core::Cache::get"),
            ("bitcoin-node:node::Lock::wait;bitcoin-node:std::_Invoke", "node::Lock::wait"),
        ] {
            assert_eq!(named(stack), [program], "{stack}");
        }
        for stack in [
            "app:parking_lot_core::park;app:pool::wait;app:std::sys::backtrace::__rust_begin_short_backtrace",
            "app:std::sys::futex_wait;app:mio::poll;app:pool::wait;app:core::ops::FnOnce::call_once",
        ] {
            assert_eq!(named(stack), ["pool::wait"], "{stack}");
        }
        assert!(named("node:node::SpinEventLoop;node:uv_run").is_empty());
    }
}

//! Functions of languages' runtimes and of libc: they wait on behalf of the function that called them.

use crate::model::CodeFunction;

/// Beginnings of the names of a file and of its functions.
type Runtime = (&'static str, &'static str);

/// Runtimes, or parts of runtimes, one per row. An empty text stands for any.
const RUNTIMES: [Runtime; 62] = [
    // C: the library, the loader, the start of programs.
    ("libc.so", ""),
    ("libc-", ""),
    ("libpthread", ""),
    ("ld-linux", ""),
    ("ld-musl", ""),
    ("", "_start"),
    ("", "__libc_"),
    // C++.
    ("libstdc++", ""),
    ("libgcc_s", ""),
    ("libc++", ""),
    ("", "std::"),
    ("", "__gthread"),
    ("", "__gnu_cxx::"),
    // Rust.
    ("", "core::"),
    ("", "alloc::"),
    ("", "__rust"),
    ("", "parking_lot"),
    ("", "lock_api::"),
    ("", "crossbeam"),
    ("", "rayon"),
    ("", "mio::"),
    ("", "tokio::"),
    ("", "futures_"),
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
    ("", "node::"),
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

/// Functions in whose place the stack lacks functions of a program, which they interpret.
const INTERPRETERS: [Runtime; 2] = [("", "Builtins_InterpreterEntryTrampoline"), ("(jvm)", "Interpreter")];
/// The same of CPython. It can put functions of no file in between, to give its callers names.
const NAMING_INTERPRETER: [Runtime; 1] = [("", "_PyEval_EvalFrameDefault")];

/// Whether a function is of a runtime.
pub(super) fn is_of_runtime(function: CodeFunction<'_>) -> bool {
    !function.is_gap() && is_in(&RUNTIMES, function)
}

/// Whether a function with this caller interprets another one, which the stack lacks.
pub(super) fn hides_another(function: CodeFunction<'_>, caller: Option<CodeFunction<'_>>) -> bool {
    let has_named_caller = || caller.is_some_and(|caller| caller.is_named() && !is_of_runtime(caller));
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
        let of = |module, name| is_of_runtime(CodeFunction { module, name });
        for (module, name) in [
            ("libc.so.6", "__GI___lll_lock_wait"),
            ("libstdc++.so.6", ""),
            ("app", "std::condition_variable::wait"),
            ("app", "std::sync::mpsc::Receiver::recv"),
            ("app", "parking_lot_core::park"),
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
}

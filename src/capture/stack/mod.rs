//! Where in the code threads sleep: from registers and stack memory to the names of functions.
//!
//! Nobody is stopped. A sample has the registers that the kernel saved; the stack is read later, as far as the rules of
//! `.eh_frame` ask for it, and dropped if the thread has moved since. Whatever a process has in its memory and its files costs
//! a bounded time and memory, and only its own names.

mod code_file;
mod code_files;
mod compressed_symbols;
mod demangle;
mod function_table;
#[cfg(any(feature = "fuzzing", test))]
pub(in crate::capture) mod fuzz;
mod perf_map;
mod process_code;
pub(in crate::capture) mod registers;
mod rule;
mod stack_list;
mod stack_memory;
mod stack_names;
pub(in crate::capture) mod stacks;
mod unwinder;

//! The names that programmers gave to functions.

use std::fmt::{self, Write};

/// The longest name of a function, in bytes. Names of templates can have any length.
const LONGEST_NAME: usize = 256;

/// The name of a function without parameters, result and hash; as it is if it is of no known language.
pub(super) fn demangled(symbol: &str) -> String {
    let mut name = LimitedText::default();
    if let Ok(rust) = rustc_demangle::try_demangle(symbol) {
        let _ = write!(name, "{rust:#}");
    } else if let Some(cpp) = cpp(symbol) {
        let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
        let _ = cpp.structured_demangle(&mut name, &options);
    }
    if name.0.is_empty() {
        // Compilers name their copies of a function `name.constprop.0`, linkers a version `name@VERSION`.
        let _ = name.write_str(symbol.split(['@', '.']).find(|part| !part.is_empty()).unwrap_or(symbol));
    }
    name.0
}

fn cpp(symbol: &str) -> Option<cpp_demangle::BorrowedSymbol<'_>> {
    /// Nested types take the stack of this thread.
    const DEEPEST: u32 = 64;
    let options = cpp_demangle::ParseOptions::default().recursion_limit(DEEPEST);
    let is_mangled = symbol.starts_with("_Z") || symbol.starts_with("__Z");
    is_mangled.then(|| cpp_demangle::BorrowedSymbol::new_with_options(symbol.as_bytes(), &options).ok())?
}

/// A text that takes no more than a name may have.
#[derive(Default)]
struct LimitedText(String);

impl Write for LimitedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LONGEST_NAME - self.0.len();
        let cut = (0..=room.min(text.len())).rev().find(|&cut| text.is_char_boundary(cut)).unwrap_or(0);
        self.0.push_str(&text[..cut]);
        if text.len() > room { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_the_names_of_their_source() {
        for (symbol, name) in [
            ("cache_get", "cache_get"),
            ("cache_get.constprop.0", "cache_get"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("_ZN4pool4lock17h0123456789abcdefE", "pool::lock"),
            ("_RNvCskwGfYPst2Cb_4pool4lock", "pool::lock"),
            ("_ZN5store5CacheIiE3getERKSs", "store::Cache<int>::get"),
            ("_Zbroken", "_Zbroken"),
        ] {
            assert_eq!(demangled(symbol), name, "{symbol}");
        }
    }

    #[test]
    fn a_name_of_any_length_is_cut() {
        let nested = format!("_Z1fI{}iE", "1AI".repeat(10_000));
        for symbol in [&*"é".repeat(10_000), &nested, &format!("_ZN{}E", "4pool".repeat(10_000))] {
            assert!(demangled(symbol).len() <= LONGEST_NAME);
        }
    }
}

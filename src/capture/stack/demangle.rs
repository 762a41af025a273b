//! The names that programmers gave to functions.

use std::fmt::{self, Write};

/// The longest name of a function, in bytes. Names of templates can have any length.
const LONGEST_NAME: usize = 256;
/// Maximum length of a name that is read with the arguments of its templates, and maximum depth of types that contain functions.
const LONGEST_TEXT: usize = 4096;
const DEEPEST_TYPE: usize = 8;

/// The name of a function without parameters, result, hash, and arguments of templates, which differ between builds; as it is if
/// it is of no known language.
pub(super) fn demangled(symbol: &str) -> String {
    let mut name = LimitedText::default();
    if let Ok(rust) = rustc_demangle::try_demangle(symbol) {
        let _ = write!(name, "{rust:#}");
    } else if let Some(cpp) = cpp(symbol) {
        let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
        let _ = cpp.structured_demangle(&mut name, &options);
    }
    let name = without_arguments(&name.0, DEEPEST_TYPE);
    limited(if name.is_empty() { without_suffix(symbol) } else { &name })
}

/// Suffixes that compilers add to the names of copies of a function: `name.cold`.
const SUFFIXES: [&str; 2] = ["cold", "localalias"];
/// Suffixes that compilers add with a number behind: `name.constprop.0`.
const NUMBERED: [&str; 6] = ["constprop", "isra", "llvm", "lto_priv", "part", "str"];

/// A symbol without that, and without the version that linkers add: `name@VERSION`. Dots are also parts of names: `main.handle`.
fn without_suffix(symbol: &str) -> &str {
    let named = symbol.split('@').find(|part| !part.is_empty()).unwrap_or(symbol);
    let is_suffix = |(at, _): &(usize, &str)| {
        let mut words = named[at + 1..].split('.');
        let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
        let [word, next] = [words.next(), words.next()];
        let is_numbered = |word| NUMBERED.contains(&word) && next.is_some_and(is_number);
        *at > 0 && word.is_some_and(|word| SUFFIXES.contains(&word) || is_number(word) || is_numbered(word))
    };
    named.match_indices('.').find(is_suffix).map_or(named, |(at, _)| &named[..at])
}

/// The beginning of a name that has room.
pub(super) fn limited(name: &str) -> String {
    let cut = (0..=LONGEST_NAME.min(name.len())).rev().find(|&cut| name.is_char_boundary(cut)).unwrap_or(0);
    name[..cut].to_owned()
}

/// The path of a function of Rust or C++: `<Pool<T> as Waits>::wait::<F>` is `Pool::wait`, `f()::{lambda(int)#1}` is
/// `f::{lambda}`.
fn without_arguments(name: &str, depth: usize) -> String {
    let mut path = String::new();
    let mut rest = name;
    while let Some(next) = rest.chars().next() {
        let operator = operator(rest);
        if operator > 0 {
            path.push_str(&rest[..operator]);
            rest = &rest[operator..];
        } else if let '<' | '(' | '{' = next {
            let (inside, after) = bracketed(rest);
            let is_of_type = next == '<' && path.is_empty() && depth > 0;
            if is_of_type {
                path = without_arguments(inside.split_once(" as ").map_or(inside, |(of, _)| of), depth - 1);
            } else if next == '{' {
                let kind = inside.split(['(', '#']).next().unwrap_or_default();
                let kind = format!("{{{kind}}}");
                // A closure in a closure is one place in the code.
                path.truncate(path.trim_end_matches(&format!("{kind}::")).len());
                path.push_str(&kind);
            } else {
                path.truncate(path.trim_end_matches("::").len());
            }
            rest = if path.is_empty() { after.trim_start_matches("::") } else { after };
        } else {
            path.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    path
}

/// The length of the name of a C++ operator at the beginning of a text; 0 if there is none.
fn operator(text: &str) -> usize {
    let Some(after) = text.strip_prefix("operator") else { return 0 };
    let length = match after {
        _ if after.starts_with("()") => 2,
        _ => after.bytes().take(3).take_while(|byte| b"<>=-!+*/%^&|~,[]".contains(byte)).count(),
    };
    if length == 0 { 0 } else { "operator".len() + length }
}

/// Returns the text between the first bracket of a text and its end, and the text after it.
fn bracketed(text: &str) -> (&str, &str) {
    let (mut depth, mut before) = (0_usize, ' ');
    for (at, char) in text.char_indices() {
        match char {
            '<' | '(' | '{' => depth += 1,
            // The arrow of a function's type is no bracket.
            '>' if before == '-' => {}
            '>' | ')' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (&text[1..at], &text[at + 1..]);
        }
        before = char;
    }
    (&text[1..], "")
}

fn cpp(symbol: &str) -> Option<cpp_demangle::BorrowedSymbol<'_>> {
    /// Nested types take the stack of this thread.
    const DEEPEST: u32 = 64;
    let options = cpp_demangle::ParseOptions::default().recursion_limit(DEEPEST);
    let is_mangled = symbol.starts_with("_Z") || symbol.starts_with("__Z");
    is_mangled.then(|| cpp_demangle::BorrowedSymbol::new_with_options(symbol.as_bytes(), &options).ok())?
}

/// A text that takes no more memory than is read of a name.
#[derive(Default)]
struct LimitedText(String);

impl Write for LimitedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let available = LONGEST_TEXT - self.0.len();
        let cut = (0..=available.min(text.len())).rev().find(|&cut| text.is_char_boundary(cut)).unwrap_or(0);
        self.0.push_str(&text[..cut]);
        if text.len() > available { Err(fmt::Error) } else { Ok(()) }
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
            ("main.part", "main.part"),
            ("cache_get.part.1.cold", "cache_get"),
            ("counter.12", "counter"),
            ("main.(*Server).Serve", "main.(*Server).Serve"),
            ("runtime.futex", "runtime.futex"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("_ZN4pool4lock17h0123456789abcdefE", "pool::lock"),
            ("_RNvCskwGfYPst2Cb_4pool4lock", "pool::lock"),
            ("_ZN5store5CacheIiE3getERKSs", "store::Cache::get"),
            ("_ZNK5store5CacheIiEclEv", "store::Cache::operator()"),
            ("_ZlsRSoRK5Cache", "operator<<"),
            ("_Zbroken", "_Zbroken"),
        ] {
            assert_eq!(demangled(symbol), name, "{symbol}");
        }
    }

    #[test]
    fn a_function_is_the_same_whatever_the_arguments_of_its_templates() {
        for (name, path) in [
            ("<pool::Pool<u32> as pool::Waits>::wait", "pool::Pool::wait"),
            ("<pool::Pool>::spawn::<F, fn(u8) -> u8>::{closure#0}::{closure#1}", "pool::Pool::spawn::{closure}"),
            ("main::{lambda(int)#2}::operator()", "main::{lambda}::operator()"),
            ("store::(anonymous namespace)::get<std::vector<int, A>>", "store::get"),
            ("(anonymous namespace)::get", "get"),
            ("Smart<T>::operator->", "Smart::operator->"),
            ("run::<dyn Fn(", "run"),
        ] {
            assert_eq!(without_arguments(name, DEEPEST_TYPE), path);
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

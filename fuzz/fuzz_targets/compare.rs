//! Two snapshots that have nothing to do with each other, compared in every way. The first two bytes
//! of the input say where the second begins, the third how they are compared.
#![no_main]

use ctprof::compare::{CompareOptions, Flatten, GroupBy, Names, compare};

mod formats;
mod memory;
mod stored;

fn options(choice: u8) -> CompareOptions {
    let by = [GroupBy::Pcomm, GroupBy::Comm, GroupBy::CommExact, GroupBy::Cgroup, GroupBy::All];
    let mut options = CompareOptions::default();
    options.max_bytes = usize::try_from(stored::LIMIT).ok();
    options.grouping.axis = by[usize::from(choice) % by.len()];
    if choice & 0x80 != 0 {
        options.grouping.names = Names::Literal;
    }
    if choice & 0x20 != 0 {
        options.grouping.flatten = vec![Flatten::new("/*/**").expect("a glob")];
    }
    options
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let [low, high, choice, rest @ ..] = input else { return };
    let (a, b) = rest.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(rest.len()));
    memory::within(stored::LIMIT, || {
        let (Some(a), Some(b)) = (stored::load(a), stored::load(b)) else { return };
        let comparison = compare(&a, &b, &options(*choice));
        formats::write_all(&comparison);
    });
});

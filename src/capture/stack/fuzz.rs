//! Programs that anybody may have written: their rules to unwind, their symbols, and the stacks that they lead to.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::super::elf::untrusted::SharedBudget;
use super::code_file::{CodeFile, CodePlace};
use super::registers::{COUNT, INSTRUCTION};
use super::unwinder::{FoundCode, MAX_FRAMES, Unwinder};
use super::{function_table, perf_map};

/// Where the stack is, whose words are the last ones of the file.
const STACK_AT: u64 = 1 << 40;
const STACK_WORDS: usize = 512;
/// Functions of the file that are unwound.
const PLACES: u64 = 64;

/// Reads `bytes` as a file with code, unwinds a stack from many of its functions, and names them; then as a `perf` map.
pub(in crate::capture) fn code(bytes: &[u8]) {
    let file = memfd_create(c"fuzzed", MFdFlags::MFD_CLOEXEC).map(File::from);
    let Some(file) = file.ok().filter(|file| file.write_all_at(bytes, 0).is_ok()) else { return };
    let budget = SharedBudget::default();
    let Some(code) = CodeFile::open(file, (1, "fuzzed".into()), &budget.of_file()) else { return };
    let (code, mut unwinder) = (Arc::new(code), Unwinder::new());
    let words: Vec<_> =
        bytes.as_rchunks::<8>().1.iter().rev().take(STACK_WORDS).copied().map(u64::from_le_bytes).collect();
    let mut places: Vec<u64> = Vec::new();
    for (range, address) in &code.segments {
        let step = (range.end.saturating_sub(range.start) / PLACES).max(1);
        places.extend((0..PLACES).map(|number| address.wrapping_add(number.wrapping_mul(step))));
    }
    for place in &places {
        let mut registers = [Some(STACK_AT); COUNT];
        registers[INSTRUCTION] = Some(*place);
        let mut find = |at| match at {
            0..STACK_AT => FoundCode::InFile(CodePlace { file: Arc::clone(&code), address: at }),
            _ => FoundCode::OfNoFile,
        };
        let mut word = |at: u64| words.get(usize::try_from(at.checked_sub(STACK_AT)? / 8).ok()?).copied();
        let addresses = unwinder.unwind(1, registers, &mut find, &mut word);
        assert!(addresses.len() <= MAX_FRAMES + 1);
        code.function_start(*place);
        code.address_of(*place);
    }
    places.sort_unstable();
    let names = function_table::names(&code.file, &places, &budget).names;
    assert!(names.is_empty() || names.len() == places.len());
    perf_map::read(bytes, &places, &mut vec![None; places.len()]);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn real_programs_with_a_few_other_bytes_are_read_unwound_and_named() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds/code");
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |end: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random % u64::try_from(end).unwrap()).unwrap()
        };
        for seed in std::fs::read_dir(seeds).unwrap() {
            let seed = std::fs::read(seed.unwrap().path()).unwrap();
            code(&seed);
            for _ in 0..100 {
                let mut bytes = seed.clone();
                for _ in 0..=below(8) {
                    let place = below(bytes.len());
                    bytes[place] = [0, 1, 0x7f, 0x80, 0xff, u8::try_from(below(256)).unwrap()][below(6)];
                }
                bytes.truncate(if below(10) == 0 { below(bytes.len()) } else { bytes.len() });
                code(&bytes);
            }
        }
    }
}

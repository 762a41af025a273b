//! Unwinding: from registers and stack memory to return addresses, by the rules of `.eh_frame`, else by frame pointers.

use std::sync::Arc;

use gimli::UnwindContext;

use super::super::recent::Recent;
use super::code_file::{CodeFile, CodePlace};
use super::registers::{COUNT, FRAME, INSTRUCTION, Registers, STACK, address_of};
use super::rule::{NoCaller, ReadWord, UnwindRule};

/// Functions of a stack, at most.
pub(super) const MAX_FRAMES: usize = 128;
/// Rules that are remembered, at most.
const MAX_RULES: usize = 1 << 14;
/// A frame is smaller: what is further away is no frame pointer.
const LARGEST_FRAME: u64 = 1 << 20;

/// An address in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CodeAddress {
    /// A function in a file, by the number of the file, in the file's own terms.
    InFile(u32, u64),
    /// In memory of a process that is of no file: what a just-in-time compiler wrote.
    InProcess(u32, u64),
    /// In a file that cannot be read, or in the kernel's code for processes (vdso).
    Unknown,
    /// The callers of a function in this file are not known: it has no rule to find them.
    NoRules(u32),
}

/// The code at an address of a process.
pub(super) enum FoundCode {
    InFile(CodePlace),
    /// In no file, and maybe nowhere.
    OfNoFile,
    /// In no file, but in memory: code that was made at run time.
    Mapped,
    Unknown,
}

/// Unwinds stacks, and remembers the rules that it used, for all processes with the same file.
pub(super) struct Unwinder {
    /// Rules of unwinding, by number of the file, and address in the file.
    rules: Recent<(u32, u64), Option<Arc<UnwindRule>>>,
    context: Box<UnwindContext<usize>>,
}

/// Finds the code at an address of a process.
pub(super) type FindCode<'c> = dyn FnMut(u64) -> FoundCode + 'c;

impl Unwinder {
    pub(super) fn new() -> Self {
        Self { rules: Recent::new("rules to unwind stacks", MAX_RULES), context: Box::default() }
    }

    /// Forgets rules that were not used between two calls, such as rules of closed files.
    pub(super) fn forget(&mut self) {
        self.rules.turn();
    }

    /// The number of rules that are remembered.
    pub(super) fn entries(&self) -> usize {
        self.rules.len()
    }

    /// The addresses in functions, the innermost first: where the thread of a process is, and then a byte of each call.
    pub(super) fn unwind(
        &mut self,
        process: u32,
        mut registers: Registers,
        code: &mut FindCode<'_>,
        memory: &mut ReadWord<'_>,
    ) -> Vec<CodeAddress> {
        let (mut addresses, mut is_exact) = (Vec::new(), true);
        let mut end = StackEnd::default();
        while let Some(address) = registers[INSTRUCTION].filter(|address| *address > 0) {
            // The call can be the last instruction of a function that does not return.
            let at = if is_exact { address } else { address - 1 };
            let (address, place) = match code(at) {
                FoundCode::InFile(place) => (CodeAddress::InFile(place.file.number, place.address), Some(place)),
                // A rule that is wrong leads anywhere, mostly where nothing is.
                FoundCode::OfNoFile if !addresses.is_empty() && memory(at & !7).is_none() => break,
                FoundCode::OfNoFile | FoundCode::Mapped => (CodeAddress::InProcess(process, at), None),
                FoundCode::Unknown => (CodeAddress::Unknown, None),
            };
            addresses.push(address);
            if addresses.len() == MAX_FRAMES {
                break;
            }
            let before = registers[STACK];
            let rule = place.and_then(|place| self.rule(&place.file, place.address));
            let caller = match &rule {
                Some(rule) => rule.caller(&registers, memory),
                None => by_frame_pointer(&registers, memory),
            };
            end.add(address, rule.is_some(), caller.as_ref().err());
            is_exact = rule.is_some_and(|rule| rule.is_of_signal);
            let Ok(caller) = caller else { break };
            // Only a signal can be handled on another stack, which may be above.
            let is_above = caller[STACK] > before || (caller[STACK] == before && addresses.len() == 1);
            if !is_above && !is_exact {
                break;
            }
            registers = caller;
        }
        end.cut(&mut addresses);
        addresses
    }

    fn rule(&mut self, file: &CodeFile, address: u64) -> Option<Arc<UnwindRule>> {
        let Self { rules, context } = self;
        rules.get_or_insert_with((file.number, address), || file.rule(address, context).map(Arc::new))
    }
}

/// Facts about the last function of a file that a stack has so far.
#[derive(Default)]
struct StackEnd {
    file: Option<u32>,
    has_rule: bool,
    /// Whether its callers were looked for by frame pointers that ended where a thread starts.
    is_start: bool,
}

impl StackEnd {
    fn add(&mut self, address: CodeAddress, has_rule: bool, error: Option<&NoCaller>) {
        let CodeAddress::InFile(file, _) = address else { return };
        // Where no function had a frame pointer so far, the register has anything, and 0 says nothing.
        let was_found_so = self.file == Some(file) && !self.has_rule;
        let is_start = was_found_so && error == Some(&NoCaller::Start);
        *self = Self { file: Some(file), has_rule, is_start };
    }

    /// Ends a stack behind its last function of a file: what follows leads nowhere. If a rule led there, it is code of a
    /// just-in-time compiler; else it is as likely no return address, and callers are unknown.
    fn cut(&self, addresses: &mut Vec<CodeAddress>) {
        let of_file = addresses.iter().rposition(|address| matches!(address, CodeAddress::InFile(..)));
        let last = of_file.unwrap_or(0);
        let is_whole = addresses.len() == last + 1 && (self.is_start || addresses.len() == MAX_FRAMES);
        addresses.truncate(last + if self.has_rule { 2 } else { 1 });
        addresses.extend(self.file.filter(|_| !self.has_rule && !is_whole).map(CodeAddress::NoRules));
    }
}

/// The registers in the caller of a function without a rule, if it has a frame pointer.
fn by_frame_pointer(registers: &Registers, memory: &mut ReadWord<'_>) -> Result<Registers, NoCaller> {
    let frame = registers[FRAME].ok_or(NoCaller::Unknown)?;
    let is_near = registers[STACK].is_none_or(|stack| frame >= stack && frame - stack < LARGEST_FRAME);
    if frame == 0 || !is_near {
        return Err(NoCaller::Start);
    }
    // What such a function saved is lost.
    let mut caller = [None; COUNT];
    caller[FRAME] = memory(frame);
    caller[INSTRUCTION] = frame.checked_add(8).and_then(memory).map(address_of);
    caller[STACK] = frame.checked_add(16);
    Ok(caller)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of words that are read to unwind a stack without rules, in memory of these words from 0x1000 on. Code is before it.
    fn reads(words: &[u64]) -> usize {
        let mut registers = [None; COUNT];
        (registers[INSTRUCTION], registers[STACK], registers[FRAME]) = (Some(0x40), Some(0x1000), Some(0x1000));
        let mut reads = 0;
        let mut memory = |address: u64| {
            let Some(place) = address.checked_sub(0x1000) else { return Some(0) };
            reads += 1;
            words.get(usize::try_from(place / 8).ok()?).copied()
        };
        let addresses = Unwinder::new().unwind(7, registers, &mut |_| FoundCode::OfNoFile, &mut memory);
        assert_eq!(addresses, [CodeAddress::InProcess(7, 0x40)], "no code of a file follows");
        reads
    }

    #[test]
    fn a_stack_says_where_rules_are_missing_and_what_code_of_no_file_a_rule_led_to() {
        let [file, other, compiled] =
            [CodeAddress::InFile(3, 0x10), CodeAddress::InFile(4, 0x20), CodeAddress::InProcess(7, 0x30)];
        let (start, lost) = (Some(NoCaller::Start), Some(NoCaller::Unknown));
        let ended = |functions: &[(CodeAddress, bool, Option<NoCaller>)]| {
            let (mut end, mut addresses) = (StackEnd::default(), Vec::new());
            for (address, has_rule, error) in functions {
                addresses.push(*address);
                end.add(*address, *has_rule, error.as_ref());
            }
            end.cut(&mut addresses);
            addresses
        };
        let no_rules = CodeAddress::NoRules(4);
        assert_eq!(ended(&[(file, true, None), (other, true, start)]), [file, other], "to its start");
        assert_eq!(ended(&[(file, true, lost)]), [file], "memory that cannot be read");
        assert_eq!(ended(&[(file, true, None), (other, false, lost)]), [file, other, no_rules]);
        assert_eq!(ended(&[(other, false, start)]), [other, no_rules], "no function set a frame pointer");
        assert_eq!(ended(&[(other, false, None), (other, false, start)]), [other, other], "by frame pointers");
        assert_eq!(ended(&[(other, false, None), (compiled, false, lost)]), [other, no_rules], "no return address");
        assert_eq!(ended(&[(file, true, None), (compiled, false, None), (compiled, false, lost)]), [file, compiled]);
        assert_eq!(ended(&[(compiled, false, None), (file, true, start)]), [compiled, file]);
    }

    #[test]
    fn frame_pointers_that_go_round_or_on_without_end_end_a_stack() {
        let round = [&[0x1000, 0x50][..], &[0x1010, 0x50, 0x1000, 0x60], &[u64::MAX, 0x50], &[0, 0x50]];
        assert_eq!(round.map(reads), [2, 4, 2, 2]);
        let endless: Vec<u64> = (1..10_000).flat_map(|frame| [0x1000 + 16 * frame, 0x50]).collect();
        assert_eq!(reads(&endless), 2 * (MAX_FRAMES - 1));
    }
}

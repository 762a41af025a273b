//! How to get from the registers in a function to those in its caller.

use gimli::{
    CfaRule, Encoding, EndianSlice, EvaluationResult, Expression, Format, LittleEndian, Location, Register,
    RegisterRule, UnwindExpression, UnwindSection, UnwindTableRow, Value,
};

use super::registers::{COUNT, INSTRUCTION, Registers, STACK, address_of};

/// Rules of compilers have some ten operations.
const MAX_OPERATIONS: u32 = 64;
/// The longest expression that is kept, in bytes.
const LONGEST_EXPRESSION: usize = 128;

/// The rule for some addresses of a function.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnwindRule {
    /// The stack pointer in the caller, before it called.
    frame: FrameAddress,
    /// The registers of the caller that differ.
    saved: Vec<(usize, SavedRegister)>,
    /// The register that has the address in the caller.
    returns_to: usize,
    /// True if a signal interrupted the caller: then its address is not the address of a call.
    pub(super) is_of_signal: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum FrameAddress {
    Register(usize, i64),
    Expression(Box<[u8]>),
}

#[derive(Debug, PartialEq, Eq)]
enum SavedRegister {
    Lost,
    InMemory(i64),
    InMemoryAt(Box<[u8]>),
    InRegister(usize),
    Is(i64),
    IsValueOf(Box<[u8]>),
}

/// Why a rule leads to no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoCaller {
    /// It needs a register that is lost, or memory that cannot be read.
    Unknown,
    /// The thread started here.
    Start,
}

/// The memory of a stack: the word at an address.
pub(super) type ReadWord<'m> = dyn FnMut(u64) -> Option<u64> + 'm;

impl UnwindRule {
    /// Copies a row of a table of rules; `None` if it has what no compiler writes.
    pub(super) fn new<'d, S: UnwindSection<EndianSlice<'d, LittleEndian>>>(
        section: &S,
        row: &UnwindTableRow<usize>,
        returns_to: Register,
        is_of_signal: bool,
    ) -> Option<Self> {
        let number = |register: Register| Some(usize::from(register.0)).filter(|number| *number < COUNT);
        let expression = |expression: &UnwindExpression<usize>| {
            let bytes = expression.get(section).ok()?.0.slice();
            (bytes.len() <= LONGEST_EXPRESSION).then(|| Box::from(bytes))
        };
        let frame = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => FrameAddress::Register(number(*register)?, *offset),
            CfaRule::Expression(of_frame) => FrameAddress::Expression(expression(of_frame)?),
        };
        let mut saved = Vec::new();
        for (register, rule) in row.registers() {
            let Some(register) = number(*register) else { continue };
            let rule = match rule {
                RegisterRule::SameValue => continue,
                RegisterRule::Offset(offset) => SavedRegister::InMemory(*offset),
                RegisterRule::ValOffset(offset) => SavedRegister::Is(*offset),
                RegisterRule::Register(other) => SavedRegister::InRegister(number(*other)?),
                RegisterRule::Expression(at) => SavedRegister::InMemoryAt(expression(at)?),
                RegisterRule::ValExpression(value) => SavedRegister::IsValueOf(expression(value)?),
                _ => SavedRegister::Lost,
            };
            saved.push((register, rule));
        }
        Some(Self { frame, saved, returns_to: number(returns_to)?, is_of_signal })
    }

    /// The registers in the caller.
    pub(super) fn caller(&self, registers: &Registers, memory: &mut ReadWord<'_>) -> Result<Registers, NoCaller> {
        let frame = match &self.frame {
            FrameAddress::Register(number, offset) => registers[*number].map(|base| base.wrapping_add_signed(*offset)),
            FrameAddress::Expression(bytes) => evaluate(bytes, registers, memory, None),
        };
        let frame = frame.ok_or(NoCaller::Unknown)?;
        let mut caller = *registers;
        caller[STACK] = Some(frame);
        caller[INSTRUCTION] = None;
        for (number, saved) in &self.saved {
            caller[*number] = match saved {
                SavedRegister::Lost if *number == self.returns_to => return Err(NoCaller::Start),
                SavedRegister::Lost => None,
                SavedRegister::InMemory(offset) => memory(frame.wrapping_add_signed(*offset)),
                SavedRegister::InMemoryAt(bytes) => {
                    evaluate(bytes, registers, memory, Some(frame)).and_then(&mut *memory)
                }
                SavedRegister::InRegister(other) => registers[*other],
                SavedRegister::Is(offset) => Some(frame.wrapping_add_signed(*offset)),
                SavedRegister::IsValueOf(bytes) => evaluate(bytes, registers, memory, Some(frame)),
            };
        }
        match caller[self.returns_to].map(address_of) {
            None => Err(NoCaller::Unknown),
            Some(0) => Err(NoCaller::Start),
            address => {
                caller[INSTRUCTION] = address;
                Ok(caller)
            }
        }
    }
}

/// The value of an expression, which starts with `first` on its stack.
fn evaluate(bytes: &[u8], registers: &Registers, memory: &mut ReadWord<'_>, first: Option<u64>) -> Option<u64> {
    let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };
    let mut evaluation = Expression(EndianSlice::new(bytes, LittleEndian)).evaluation(encoding);
    evaluation.set_max_iterations(MAX_OPERATIONS);
    first.into_iter().for_each(|frame| evaluation.set_initial_value(frame));
    let mut state = evaluation.evaluate().ok()?;
    loop {
        let next = match state {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                evaluation.resume_with_register(Value::Generic((*registers.get(usize::from(register.0))?)?))
            }
            EvaluationResult::RequiresMemory { address, .. } => {
                evaluation.resume_with_memory(Value::Generic(memory(address)?))
            }
            _ => return None,
        };
        state = next.ok()?;
    }
    match evaluation.result().first()?.location {
        Location::Address { address } => Some(address),
        _ => None,
    }
}

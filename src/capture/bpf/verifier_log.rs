//! The log of the kernel's verifier (`kernel/bpf/verifier.c`, `log.c`): which instruction it refused, and why.

/// Lines of a reason; later ones explain it at length (Linux 7.3).
const MAX_LINES: usize = 3;
/// A line can have the states of all registers.
const MAX_CHARACTERS: usize = 300;

/// Content of the verifier's log about a refused program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VerifierRefusal {
    /// The number of the refused instruction. `None` if the program was refused as a whole, for example for an
    /// unreachable instruction.
    pub(super) instruction: Option<usize>,
    /// The line of the instruction and what follows it, as one line.
    pub(super) reason: String,
}

impl VerifierRefusal {
    /// The verifier logs each instruction before it checks it, so the refused one is the last one in the log.
    pub(super) fn parse(log: &str) -> Self {
        let lines: Vec<&str> = log.lines().collect();
        let last = lines.iter().rposition(|line| instruction_number(line).is_some());
        let is_reason = |line: &&&str| !line.is_empty() && !line.starts_with("processed ");
        let reason = lines[last.unwrap_or(0)..].iter().take_while(is_reason).take(MAX_LINES);
        let reason = reason.map(|line| line.trim()).collect::<Vec<_>>().join("; ");
        Self {
            instruction: last.and_then(|last| instruction_number(lines[last])),
            reason: reason.chars().take(MAX_CHARACTERS).collect(),
        }
    }
}

/// The number in an instruction's line, `12: (79) r0 = *(u64 *)(r7 +8)`.
fn instruction_number(line: &str) -> Option<usize> {
    let (number, text) = line.split_once(": (")?;
    let (opcode, _) = text.split_once(") ")?;
    let is_opcode = opcode.len() == 2 && opcode.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_opcode { number.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 5.10: the states of registers have lines of their own.
    const BEYOND_STRUCT_5_10: &str = "\
9: (15) if r0 == 0x0 goto pc+8
 R0=map_value(id=0,off=0,ks=4,vs=1000,imm=0) R6=ctx(id=0,off=0,imm=0) R7=ptr_task_struct(id=0,off=0,imm=0) R10=fp0
10: (bf) r8 = r0
11: (7a) *(u64 *)(r8 +0) = 42
 R0=map_value(id=0,off=0,ks=4,vs=1000,imm=0) R6=ctx(id=0,off=0,imm=0) R7=ptr_task_struct(id=0,off=0,imm=0) R10=fp0
12: (79) r0 = *(u64 *)(r7 +32760)
access beyond struct task_struct at off 32760 size 8
processed 12 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1 mark_read 1
";

    /// Linux 5.10: a branch that the verifier returned to.
    const BRANCH_5_10: &str = "\
12: (61) r0 = *(u32 *)(r7 +16)
13: (15) if r0 == 0x0 goto pc+1

from 13 to 15: R0_w=inv0 R6=ctx(id=0,off=0,imm=0) R7=ptr_task_struct(id=0,off=0,imm=0) R10=fp0 fp-8=mmmm????
15: (bf) r0 = r9
R9 !read_ok
processed 23 insns (limit 1000000) max_states_per_insn 0 total_states 2 peak_states 2 mark_read 1
";

    /// Linux 6.1 with lockdown=confidentiality: states follow a semicolon.
    const LOCKDOWN_6_1: &str = "\
12: (bf) r1 = r8                      ; R1_w=map_value(off=0,ks=4,vs=1000,imm=0) R8_w=map_value(off=0,ks=4,vs=1000,imm=0)
13: (b7) r2 = 8                       ; R2_w=8
14: (bf) r3 = r7                      ; R3_w=ptr_task_struct(off=0,imm=0) R7=ptr_task_struct(off=0,imm=0)
15: (85) call bpf_probe_read_kernel#113
unknown func bpf_probe_read_kernel#113
processed 15 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1 mark_read 1
";

    /// Linux 7.3: other instructions are shown again below the reason.
    const EXPLAINED_7_3: &str = "\
11: (7a) *(u64 *)(r8 +0) = 42         ; R8=map_value(ks=4,vs=1000)
12: (85) call schedule#105657
calling kernel function schedule is not allowed

Verification failed: Policy: Operation is not allowed

Reason:
  The kfunc schedule is not allowed: this program cannot call the kfunc.

At:
  insn 12
       | ^-- error: policy check failed for kfunc schedule
  Instruction context:
      10 | (bf) r8 = r0
      11 | (7a) *(u64 *)(r8 +0) = 42
  >>> 12 | (85) call schedule#105657
      13 | (79) r1 = *(u64 *)(r6 +0)
      14 | (79) r1 = *(u64 *)(r1 +0)

Suggestion:
  Use a kfunc allowed for this program type and attach point, or change the program context.

processed 12 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1 mark_read 0
";

    /// Linux 6.12: nothing was looked at but the program as a whole.
    const NO_INSTRUCTION_6_12: &str = "\
kernel btf_id 20000000 is not a function
processed 0 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
";

    #[test]
    fn the_refused_instruction_is_the_last_one_and_the_reason_follows_it() {
        let cases = [
            (BEYOND_STRUCT_5_10, Some(12), "access beyond struct task_struct at off 32760 size 8"),
            (BRANCH_5_10, Some(15), "R9 !read_ok"),
            (LOCKDOWN_6_1, Some(15), "unknown func bpf_probe_read_kernel#113"),
            (EXPLAINED_7_3, Some(12), "calling kernel function schedule is not allowed"),
            (NO_INSTRUCTION_6_12, None, "kernel btf_id 20000000 is not a function"),
        ];
        for (log, instruction, last_line) in cases {
            let refusal = VerifierRefusal::parse(log);
            assert_eq!(
                (refusal.instruction, refusal.reason.split("; ").last()),
                (instruction, Some(last_line)),
                "{log}"
            );
        }
        assert_eq!(VerifierRefusal::parse(""), VerifierRefusal::default());
    }

    #[test]
    fn a_long_reason_is_cut() {
        let reason =
            |line: &str| VerifierRefusal::parse(&format!("3: (95) exit\n{}", format!("{line}\n").repeat(100))).reason;
        assert_eq!(reason("why"), "3: (95) exit; why; why");
        assert_eq!(reason(&"é".repeat(400)).chars().count(), MAX_CHARACTERS);
    }
}

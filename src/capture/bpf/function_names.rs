//! Names of the kernel's functions, by addresses in them. The kernel prints them itself.
//!
//! A program that the kernel runs for each address of a list takes microseconds, where `/proc/kallsyms` takes a tenth of a second, and
//! shows addresses only with another capability.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;

use super::super::recent::Recent;
use super::assemble::{Assembled, Assembler, Helper, Register, Width};
use super::btf::{Btf, kind};
use super::layout::Layout;
use super::load::{Attach, ProgramSpec, load};
use super::obstacle;
use super::program::Kernel;
use crate::model::{BpfObstacle, Name, NoBpf, printable};
use crate::sys::bpf::iterator;
use crate::sys::bpf::map::SharedWords;

use Register::{Frame, R0, R1, R2, R3, R4, R5, R6, R7};

/// Addresses in the list.
const LISTED: u32 = 256;
/// Addresses whose names are remembered: each step of a series has few new ones.
const MAX_KNOWN: usize = 1 << 16;
/// Offset of the element in the context (`struct bpf_iter__bpf_map_elem`).
const CONTEXT_VALUE: i16 = 24;
/// A return address as `function+offset/size [module]`, or itself (`Documentation/core-api/printk-formats.rst`), and a NUL.
const FORMAT: [u8; 4] = *b"%pB\n";
const FORMAT_BYTES: i32 = 5;
/// Places on the stack of the format and of the address.
const FORMAT_PLACE: i16 = -16;
const ADDRESS_PLACE: i16 = -8;

/// A loaded program that prints the names of functions.
pub(in crate::capture) struct FunctionNames {
    link: OwnedFd,
    list: SharedWords,
    /// `None` for an address outside of functions.
    names_by_address: Recent<u64, Option<Name>>,
}

impl FunctionNames {
    pub(super) fn load(btf: &Btf<'_>, kernel: Kernel) -> Result<Self, NoBpf> {
        let elements = btf.find(kind::FUNC, "bpf_iter_bpf_map_elem");
        let elements =
            elements.ok_or_else(|| NoBpf::with_detail(BpfObstacle::NoTaskIterator, "bpf_iter_bpf_map_elem"))?;
        let spec = ProgramSpec { name: "ctprof_names", attach: Attach::Iterator, btf_id: elements.0 };
        let program = load(&spec, &mut Layout::default(), |_| print_address(kernel))?;
        let list = SharedWords::new(LISTED).map_err(obstacle::of_errno)?;
        let map = list.map.as_raw_fd().cast_unsigned();
        let link = iterator::link(program.as_fd(), Some(map)).map_err(obstacle::of_errno)?;
        Ok(Self { link, list, names_by_address: Recent::new("functions of the kernel", MAX_KNOWN) })
    }

    /// The functions that these addresses are in. Empty if the kernel does not know its functions (`CONFIG_KALLSYMS`).
    pub(in crate::capture) fn functions_of(&mut self, addresses: &BTreeSet<u64>) -> Result<HashMap<u64, Name>, Errno> {
        let (mut names, mut new) = (HashMap::new(), Vec::new());
        for &address in addresses {
            match self.names_by_address.get(address) {
                Some(name) => names.extend(name.map(|name| (address, name))),
                None => new.push(address),
            }
        }
        for some in new.chunks(LISTED as usize) {
            self.list.clear();
            (0..).zip(some).for_each(|(number, address)| self.list.set(number, *address));
            let text = self.printed()?;
            for (&address, line) in some.iter().zip(text.split(|&byte| byte == b'\n')) {
                let name = function(line);
                self.names_by_address.insert(address, name.clone());
                names.extend(name.map(|name| (address, name)));
            }
        }
        Ok(names)
    }

    /// Forgets functions that were not asked for since the call before.
    pub(super) fn forget(&mut self) {
        self.names_by_address.turn();
    }

    /// The number of addresses.
    pub(super) fn entries(&self) -> usize {
        self.names_by_address.len()
    }

    /// A line for each address of the list.
    fn printed(&self) -> Result<Vec<u8>, Errno> {
        let lines = iterator::open(self.link.as_fd())?;
        let mut text = vec![0; iterator::CHUNK];
        let length = iterator::read(lines, &mut text)?;
        text.truncate(length);
        Ok(text)
    }
}

/// A program that prints an element of the list, unless it is 0.
fn print_address(kernel: Kernel) -> Assembled {
    let mut assembler = Assembler::default();
    let end = assembler.label();
    assembler.mov(R6, R1);
    assembler.load(Width::U64, R7, R6, CONTEXT_VALUE);
    assembler.jump_if_equal(R7, 0, end);
    assembler.load(Width::U64, R7, R7, 0);
    assembler.jump_if_equal(R7, 0, end);
    assembler.store(Width::U64, Frame, ADDRESS_PLACE, R7);
    assembler.store_immediate(Width::U64, Frame, FORMAT_PLACE, i32::from_le_bytes(FORMAT));
    assembler.load(Width::U64, R1, R6, 0);
    assembler.load(Width::U64, R1, R1, kernel.seq);
    for (register, place) in [(R2, FORMAT_PLACE), (R4, ADDRESS_PLACE)] {
        assembler.mov(register, Frame);
        assembler.add_immediate(register, place.into());
    }
    assembler.mov_immediate(R3, FORMAT_BYTES);
    assembler.mov_immediate(R5, 8);
    assembler.call(Helper::SeqPrintf);
    assembler.place(end);
    assembler.mov_immediate(R0, 0);
    assembler.exit();
    assembler.finish()
}

/// The function of a line: `do_wait+0x5f/0x160`, `jbd2_log_wait_commit+0xb1/0x120 [jbd2]`, `0xffffffffc0000040`.
fn function(line: &[u8]) -> Option<Name> {
    let end = line.iter().position(|&byte| byte == b'+')?;
    Some(printable(&line[..end]).into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::setup::with_kernel;
    use super::*;
    use crate::skip::{Missing, skipped};

    #[test]
    fn a_line_of_the_kernel_is_a_function() {
        // Linux 6.18, `__sprint_symbol` of kernel/kallsyms.c.
        let lines = ["do_wait+0x5f/0x160", "jbd2_log_wait_commit+0xb1/0x120 [jbd2]", "0xffffffffc0000040", ""];
        let names = lines.map(|line| function(line.as_bytes()).map(|name| name.to_string()));
        assert_eq!(names, [Some("do_wait".to_owned()), Some("jbd2_log_wait_commit".to_owned()), None, None]);
    }

    /// Whether the host refuses even an empty program there, and lets it iterate over threads.
    fn refuses_all_iterators_of_maps() -> bool {
        let empty = |target| {
            with_kernel(|btf, _| {
                let elements = btf.find(kind::FUNC, target).unwrap();
                let spec = ProgramSpec { name: "ctprof_empty", attach: Attach::Iterator, btf_id: elements.0 };
                load(&spec, &mut Layout::default(), |_| {
                    let mut program = Assembler::default();
                    program.mov_immediate(R0, 0);
                    program.exit();
                    program.finish()
                })
            })
        };
        let refusal = empty("bpf_iter_bpf_map_elem").err().map(|no_bpf| no_bpf.cause);
        refusal == Some(BpfObstacle::Denied) && empty("bpf_iter_task").is_ok()
    }

    #[test]
    fn addresses_have_the_names_that_the_list_of_the_kernel_has() {
        let mut names = match with_kernel(FunctionNames::load) {
            Ok(names) => names,
            Err(no_bpf) if no_bpf.cause == BpfObstacle::Denied && refuses_all_iterators_of_maps() => {
                return skipped(Missing::Kernel(format!("iterators of maps: {no_bpf:?}")));
            }
            Err(no_bpf) => return skipped(Missing::Privilege(format!("BPF: {no_bpf:?}"))),
        };
        let list = fs::read_to_string("/proc/kallsyms").unwrap();
        let functions = list.lines().filter_map(|line| {
            let [address, kind, name] = line.splitn(3, ' ').collect::<Vec<_>>().try_into().ok()?;
            let address = u64::from_str_radix(address, 16).ok().filter(|&address| address > 0)?;
            (kind == "T" && !name.contains(['\t', '_'])).then(|| (address, name.to_owned()))
        });
        let listed: Vec<_> = functions.step_by(7).take(1000).collect();
        // Return addresses are behind a call.
        let addresses = listed.iter().map(|(address, _)| address + 1).chain([1]).collect();
        let found = names.functions_of(&addresses).unwrap();
        if listed.is_empty() {
            return skipped(Missing::Privilege("addresses in /proc/kallsyms".to_owned()));
        }
        assert_eq!(found.get(&1), None);
        let different: Vec<_> = listed
            .iter()
            .filter(|(address, name)| found.get(&(address + 1)).is_none_or(|found| **found != **name))
            .collect();
        // Functions of the same code have several names at one address.
        assert!(different.len() * 20 < listed.len(), "{} of {}: {different:?}", different.len(), listed.len());
        assert_eq!(names.functions_of(&addresses).unwrap(), found);
    }
}

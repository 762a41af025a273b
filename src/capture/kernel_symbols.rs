//! Functions of the kernel by the addresses in them, from `/proc/kallsyms`.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};

use super::procfs::text;
use crate::model::{Name, printable};

/// Addresses that are remembered.
const MAX_KNOWN: usize = 1 << 16;

/// The open list. Whether it shows addresses is decided when it is opened.
pub(super) struct KernelSymbols {
    list: File,
    /// The list takes some 0.1 s: each step of a series has few new addresses.
    known: HashMap<u64, Option<Name>>,
}

impl KernelSymbols {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self { list: File::open("/proc/kallsyms")?, known: HashMap::new() })
    }

    /// The functions that these addresses are in. Empty if the list hides its addresses.
    pub(super) fn names(&mut self, addresses: &BTreeSet<u64>) -> io::Result<HashMap<u64, Name>> {
        if self.known.len() > MAX_KNOWN {
            self.known.clear();
        }
        let new: BTreeSet<_> = addresses.iter().filter(|address| !self.known.contains_key(address)).copied().collect();
        if !new.is_empty() {
            self.list.rewind()?;
            let mut found = names(BufReader::with_capacity(1 << 16, &mut self.list), &new)?;
            self.known.extend(new.into_iter().map(|address| (address, found.remove(&address))));
        }
        let known = |address: &u64| Some((*address, self.known.get(address)?.clone()?));
        Ok(addresses.iter().filter_map(known).collect())
    }
}

/// Reads the list once, and keeps only what is next to an address: it has some 200,000 lines in no order.
fn names(mut list: impl BufRead, addresses: &BTreeSet<u64>) -> io::Result<HashMap<u64, Name>> {
    let wanted: Vec<_> = addresses.iter().copied().collect();
    // The nearest function before each address, but after the address before.
    let mut nearest: Vec<Option<(u64, Name)>> = vec![None; wanted.len()];
    let mut line = Vec::new();
    while list.read_until(b'\n', &mut line)? > 0 {
        if let Some((address, name)) = function(&line) {
            let index = wanted.partition_point(|&wanted| wanted < address);
            if let Some(nearest) = nearest.get_mut(index)
                && nearest.as_ref().is_none_or(|(known, _)| *known < address)
            {
                *nearest = Some((address, printable(name).into()));
            }
        }
        line.clear();
    }
    let mut last = None;
    let each = wanted.into_iter().zip(nearest).filter_map(|(address, nearest)| {
        last = nearest.map(|(_, name)| name).or_else(|| last.take());
        Some((address, last.clone()?))
    });
    Ok(each.collect())
}

/// The address and the name of a function: `ffffffff81000000 T _stext`, `ffffffffc0000000 t name\t[module]`.
fn function(line: &[u8]) -> Option<(u64, &[u8])> {
    let mut words = line.splitn(3, |&byte| byte == b' ');
    let address = text::hexadecimal(words.next()?).filter(|&address| address > 0)?;
    let is_function = matches!(words.next()?, b"t" | b"T" | b"w" | b"W");
    let name = words.next()?.split(|&byte| matches!(byte, b'\t' | b'\n')).next()?;
    (is_function && !name.starts_with(b"__pfx_")).then_some((address, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_name_of_the_function_that_it_is_in() {
        // Linux 6.18, `s_show` of kernel/kallsyms.c: modules and BPF programs follow in no order.
        let list = b"ffffffff81000000 T _text\n\
            ffffffff81000100 t __pfx_do_wait\n\
            ffffffff81000110 t do_wait\n\
            ffffffff81000110 d data\n\
            ffffffff81000200 W kernel_wait4\n\
            ffffffffc0800000 t ext4_sync_file\t[ext4]\n\
            ffffffffc0000000 t jbd2_log_wait_commit\t[jbd2]\n";
        let wanted = [0xffff_ffff_8100_0120, 0xffff_ffff_8100_0130, 0xffff_ffff_8100_0200, 0xffff_ffff_c000_0040];
        let found = names(&list[..], &BTreeSet::from(wanted)).unwrap();
        let of = wanted.map(|address| &*found[&address]);
        assert_eq!(of, ["do_wait", "do_wait", "kernel_wait4", "jbd2_log_wait_commit"]);
    }

    #[test]
    fn hidden_addresses_have_no_names() {
        let list = b"0000000000000000 T _text\n0000000000000000 t do_wait\n";
        assert_eq!(names(&list[..], &[5].into()).unwrap(), HashMap::new());
    }
}

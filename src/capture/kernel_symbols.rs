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
    /// What the list has of the kernel itself; kept when the list is read a second time.
    kernel: Option<KernelText>,
    has_read: bool,
}

/// The functions of the kernel without its modules, which do not change.
#[derive(Default)]
struct KernelText {
    /// Addresses in order, and where the names begin.
    functions: Vec<(u64, usize)>,
    names: String,
}

impl KernelText {
    fn read(mut list: impl BufRead) -> io::Result<Self> {
        let mut text = Self::default();
        let mut line = Vec::new();
        while list.read_until(b'\n', &mut line)? > 0 {
            // The name of a module is behind that of its function.
            if let Some((address, name)) = function(&line).filter(|_| !line.contains(&b'\t')) {
                text.functions.push((address, text.names.len()));
                text.names.push_str(&printable(name));
                text.names.push('\n');
            }
            line.clear();
        }
        text.functions.sort_by_key(|(address, _)| *address);
        // Of several names, the first one of the list.
        text.functions.dedup_by_key(|(address, _)| *address);
        Ok(text)
    }

    /// The function that an address is in; `None` outside of the kernel itself.
    fn name(&self, address: u64) -> Option<Name> {
        let after = self.functions.partition_point(|(start, _)| *start <= address);
        let last = self.functions.get(after.checked_sub(1)?).filter(|_| after < self.functions.len())?;
        self.names[last.1..].lines().next().map(Name::from)
    }
}

impl KernelSymbols {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self { list: File::open("/proc/kallsyms")?, known: HashMap::new(), kernel: None, has_read: false })
    }

    /// The functions that these addresses are in. Empty if the list hides its addresses.
    pub(super) fn names(&mut self, addresses: &BTreeSet<u64>) -> io::Result<HashMap<u64, Name>> {
        if self.known.len() > MAX_KNOWN {
            self.known.clear();
        }
        let mut new: BTreeSet<_> = addresses.iter().filter(|at| !self.known.contains_key(at)).copied().collect();
        if !new.is_empty() && std::mem::replace(&mut self.has_read, true) {
            if self.kernel.is_none() {
                let kernel = KernelText::read(self.rewound()?)?;
                self.kernel = Some(kernel);
            }
            let kernel = self.kernel.as_ref();
            let found = new.iter().filter_map(|at| Some((*at, Some(kernel?.name(*at)?))));
            self.known.extend(found);
            new.retain(|at| !self.known.contains_key(at));
        }
        if !new.is_empty() {
            let mut found = names(self.rewound()?, &new)?;
            self.known.extend(new.into_iter().map(|address| (address, found.remove(&address))));
        }
        let known = |address: &u64| Some((*address, self.known.get(address)?.clone()?));
        Ok(addresses.iter().filter_map(known).collect())
    }

    fn rewound(&mut self) -> io::Result<impl BufRead> {
        self.list.rewind()?;
        Ok(BufReader::with_capacity(1 << 16, &mut self.list))
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
    fn what_is_kept_of_the_list_has_no_functions_of_modules() {
        let list = b"ffffffffc0000000 t jbd2_log_wait_commit\t[jbd2]\n\
            ffffffff81000200 W kernel_wait4\n\
            ffffffff81000110 t do_wait\n\
            ffffffff81000300 T _etext\n";
        let text = KernelText::read(&list[..]).unwrap();
        let name = |address| text.name(address).map(|name| name.to_string());
        assert_eq!(name(0xffff_ffff_8100_0120).as_deref(), Some("do_wait"));
        assert_eq!(name(0xffff_ffff_8100_0200).as_deref(), Some("kernel_wait4"));
        assert_eq!([0x1000, 0xffff_ffff_8100_0300, 0xffff_ffff_c000_0040].map(name), [None, None, None]);
    }

    #[test]
    fn the_names_of_the_first_reading_are_those_of_later_ones() {
        let Ok(mut symbols) = KernelSymbols::open() else { return };
        let text = KernelText::read(symbols.rewound().unwrap()).unwrap();
        let some: BTreeSet<u64> = text.functions.iter().step_by(5000).map(|(address, _)| address + 1).collect();
        let first = symbols.names(&some).unwrap();
        symbols.known.clear();
        assert_eq!(symbols.names(&some).unwrap(), first);
        assert_eq!(symbols.kernel.is_some(), !some.is_empty());
    }

    #[test]
    fn hidden_addresses_have_no_names() {
        let list = b"0000000000000000 T _text\n0000000000000000 t do_wait\n";
        assert_eq!(names(&list[..], &[5].into()).unwrap(), HashMap::new());
    }
}

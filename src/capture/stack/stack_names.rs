//! Names of the functions of stacks, which are looked up at the end, for functions that appear.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter;
use std::time::Duration;

use super::super::elf::untrusted::SharedBudget;
use super::code_file::CodeFile;
use super::code_files::CodeFiles;
use super::function_table::NamedAddresses;
use super::stack_list::{StackList, index};
use super::unwinder::CodeAddress;
use super::{function_table, perf_map};
use crate::model::sorted::CollectSorted;
use crate::model::{CodeFunction, Name};

/// Functions of a stack that have names, the innermost ones.
const MAX_NAMED: usize = 64;
/// CPU time for the names of a window.
const TIME: Duration = Duration::from_millis(300);
/// The texts of all stacks of a window, in bytes: programs can make names of any length.
const MAX_TEXT: usize = 8 << 20;

/// The functions of addresses that have been named, by the number of the address.
#[derive(Default)]
pub(super) struct StackNames(HashMap<u32, Name>);

impl StackNames {
    /// The functions of the stacks with these numbers, as [`CodeFunction`] reads them.
    pub(super) fn name_stacks(&mut self, numbers: &[u32], list: &StackList, files: &CodeFiles) -> HashMap<u32, Name> {
        let stack = |number: u32| list.stack(number).iter().take(MAX_NAMED).copied();
        let wanted: BTreeSet<u32> = numbers.iter().flat_map(|&number| stack(number)).into_set();
        let unnamed: Vec<_> = wanted.into_iter().filter(|number| !self.0.contains_key(number)).collect();
        let addresses: Vec<_> = unnamed.iter().map(|&number| list.addresses.values[index(number)]).collect();
        self.0.extend(unnamed.into_iter().zip(named(&addresses, files)));
        let text = |number: u32| {
            let functions: Vec<&str> = stack(number).filter_map(|at| self.0.get(&at)).map(|name| &**name).collect();
            (number, Name::from(functions.join(";")))
        };
        let mut bytes = 0;
        let texts = numbers.iter().map(|&number| text(number)).filter(|(_, text)| !text.is_empty());
        texts
            .take_while(|(_, text)| {
                bytes += text.len();
                bytes <= MAX_TEXT
            })
            .collect()
    }

    pub(super) fn entries(&self) -> usize {
        self.0.len()
    }
}

/// The functions at some addresses, by one pass over the symbols of each file.
fn named(addresses: &[CodeAddress], files: &CodeFiles) -> Vec<Name> {
    let (mut in_files, mut in_processes) =
        (BTreeMap::<u32, BTreeSet<u64>>::new(), BTreeMap::<u32, BTreeSet<u64>>::new());
    for address in addresses {
        match *address {
            CodeAddress::InFile(file, at) => in_files.entry(file).or_default().insert(at),
            CodeAddress::InProcess(process, at) => in_processes.entry(process).or_default().insert(at),
            CodeAddress::Unknown | CodeAddress::NoRules(_) => false,
        };
    }
    let mut found: HashMap<CodeAddress, Name> = HashMap::new();
    let budget = SharedBudget::lasting(TIME);
    for (number, wanted) in in_files {
        let Some(file) = files.file(number) else { continue };
        let wanted = Vec::from_iter(wanted);
        let NamedAddresses { names, is_stripped } = function_table::names(&file.file, &wanted, &budget);
        let names = names.into_iter().chain(iter::repeat(None));
        found.extend(wanted.into_iter().zip(names).map(|(at, name)| {
            let unnamed = || if is_stripped { stripped(file, at) } else { Name::default() };
            let name = name.unwrap_or_else(unnamed);
            let function = CodeFunction { module: &file.name, name: &name };
            (CodeAddress::InFile(number, at), function.text().as_str().into())
        }));
    }
    for (process, wanted) in in_processes {
        let wanted = Vec::from_iter(wanted);
        let names = perf_map::names(process, &wanted);
        let unnamed = || CodeFunction::WITHOUT_FRAMES.text().as_str().into();
        let named = wanted.into_iter().zip(names).map(|(at, name)| (at, name.unwrap_or_else(unnamed)));
        found.extend(named.map(|(at, name)| (CodeAddress::InProcess(process, at), name)));
    }
    let no_rules = |number| {
        let module = &files.file(number)?.name;
        Some(CodeFunction { module, name: CodeFunction::NO_UNWIND_TABLES }.text().as_str().into())
    };
    let name = |address: &CodeAddress| match *address {
        CodeAddress::NoRules(file) => no_rules(file),
        _ => found.remove(address),
    };
    addresses.iter().map(name).map(|name| name.unwrap_or_else(|| ":".into())).collect()
}

/// The name of a function of a file without symbols: where it begins in the file, or an address in it. A debug file elsewhere has
/// its name.
fn stripped(file: &CodeFile, address: u64) -> Name {
    format!("{}+{:#x}", CodeFunction::STRIPPED, file.function_start(address).unwrap_or(address)).as_str().into()
}

//! Where the kernel keeps a value: a path such as `signal->nr_threads`, resolved to offsets.

use super::btf::{Btf, Type, TypeId};
use super::shape::TypeShape;

/// Pointers to follow from the first structure, then one value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldLocation {
    /// The offset in bytes of each pointer to follow, in the structure reached so far.
    pub(super) hops: Vec<u32>,
    /// The offset in bytes of the value, in the structure after the last hop.
    pub(super) offset: u32,
    /// Bytes of the value, or of the whole array.
    pub(super) size: u32,
    /// Whether the value, or each element, is a signed integer.
    pub(super) signed: bool,
    /// Whether the value, or each element, is a pointer.
    pub(super) pointer: bool,
    /// Whether a verifier may refuse to load it, so that `bpf_probe_read_kernel` has to copy it.
    pub(super) copied: bool,
}

/// Resolves the first of several paths that this kernel has, for example `__state | state`.
///
/// A path is names of members, joined by `.` (a structure inside) or `->` (a pointer), and `[n]` or `[enumeration.name]` for an
/// element of an array. It leads to an integer, a pointer or an array of these. Bit fields are not supported.
pub(super) fn resolve(btf: &Btf<'_>, from: TypeId, paths: &str) -> Option<FieldLocation> {
    paths.split('|').find_map(|path| resolve_one(btf, from, path.trim()))
}

fn resolve_one(btf: &Btf<'_>, from: TypeId, path: &str) -> Option<FieldLocation> {
    let mut resolver = PathResolver { btf, id: from, place: FieldLocation::default() };
    let mut rest = resolver.member(path)?;
    while !rest.is_empty() {
        rest = if let Some(after) = rest.strip_prefix("->") {
            resolver.hop()?;
            resolver.member(after)?
        } else if let Some(after) = rest.strip_prefix('.') {
            resolver.member(after)?
        } else {
            let (index, after) = rest.strip_prefix('[')?.split_once(']')?;
            let enumerator = || index.split_once('.').and_then(|(of, name)| btf.enumerator(of, name));
            resolver.element(index.parse().ok().or_else(enumerator)?)?;
            after
        };
    }
    resolver.value()
}

struct PathResolver<'b, 'a> {
    btf: &'b Btf<'a>,
    id: TypeId,
    place: FieldLocation,
}

impl PathResolver<'_, '_> {
    /// The member whose name `path` starts with. Returns the rest.
    fn member<'p>(&mut self, path: &'p str) -> Option<&'p str> {
        let (name, rest) = path.split_at(path.find(['.', '-', '[']).unwrap_or(path.len()));
        let member = self.btf.member(self.id, name)?;
        self.place.offset = self.place.offset.checked_add(member.offset)?;
        self.id = member.id;
        Some(rest)
    }

    fn hop(&mut self) -> Option<()> {
        let TypeShape::Pointer(target) = self.btf.shape(self.id)? else { return None };
        // A copy of a pointer cannot be followed without another copy.
        if self.place.copied {
            return None;
        }
        self.place.hops.push(std::mem::take(&mut self.place.offset));
        self.id = target;
        Some(())
    }

    fn element(&mut self, index: u32) -> Option<()> {
        let TypeShape::Array { element, length } = self.btf.shape(self.id)? else { return None };
        if index >= length {
            return None;
        }
        // Up to Linux 6.1, verifiers do not recognize a structure by another name: "Type 'atomic_long_t' is not a struct".
        let is_structure = matches!(self.btf.shape(element)?, TypeShape::Structure { .. });
        self.place.copied |= is_structure && self.btf.at(element).is_some_and(Type::is_modifier);
        let offset = self.btf.size(element)?.checked_mul(index)?;
        self.place.offset = self.place.offset.checked_add(offset)?;
        self.id = element;
        Some(())
    }

    fn value(mut self) -> Option<FieldLocation> {
        match self.btf.elements(self.id)?.0 {
            TypeShape::Integer { signed, .. } => self.place.signed = signed,
            TypeShape::Pointer(_) => self.place.pointer = true,
            TypeShape::Array { .. } | TypeShape::Structure { .. } => return None,
        }
        self.place.size = self.btf.size(self.id)?;
        // A flexible array has no size.
        (self.place.size > 0).then_some(self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::super::btf::kind;
    use super::super::tests::type_builder::TypeBuilder;
    use super::*;

    /// Structures with one case of each kind.
    fn task() -> Vec<u8> {
        let mut built = TypeBuilder::new();
        let (int, long) = (built.signed("int", 4), built.unsigned("unsigned long", 8));
        let character = built.signed("char", 1);
        let (huge, comm) = (built.signed("__int128", 16), built.array(character, 16));
        let atomic = built.structure("", 8, &[("counter", long, 0)]);
        let (atomic_t, constant) = (built.typedef("atomic_long_t", atomic), built.add(10, "", 0, int, &[]));
        let (plain_counts, typedef_counts) = (built.array(atomic, 4), built.array(atomic_t, 4));
        let mm =
            built.structure("mm", 72, &[("plain", plain_counts, 0), ("count", typedef_counts, 32), ("end", long, 64)]);
        let mm = built.pointer(mm);
        let either = built.union("", 8, &[("wide", long, 0), ("narrow", constant, 0)]);
        let inner = built.structure("", 16, &[("", either, 8)]);
        let (row, void, words) = (built.array(int, 3), built.pointer(0), built.array(int, 0));
        let (table, signed_enum) = (built.array(row, 2), built.add(6, "policy", 1 << 31, 4, &[]));
        let members = [
            ("pid", int, 0),
            ("", inner, 8),
            ("comm", comm, 24),
            ("mm", mm, 40),
            ("table", table, 64),
            ("policy", signed_enum, 88),
            ("cgroups", void, 96),
            ("huge", huge, 112),
            ("words", words, 128),
        ];
        built.structure("task", 128, &members);
        built.finish()
    }

    fn found(path: &str) -> Option<FieldLocation> {
        let bytes = task();
        let btf = Btf::parse(&bytes).unwrap();
        resolve(&btf, btf.find(kind::STRUCT, "task").unwrap(), path)
    }

    fn place(offset: u32, size: u32) -> FieldLocation {
        FieldLocation { offset, size, ..FieldLocation::default() }
    }

    #[test]
    fn members_are_found_at_any_depth() {
        let signed = |offset, size| Some(FieldLocation { signed: true, ..place(offset, size) });
        assert_eq!(found("pid"), signed(0, 4));
        assert_eq!(found("policy"), signed(88, 4), "an enumeration");
        assert_eq!(found("wide"), Some(place(16, 8)), "in an anonymous union of an anonymous structure");
        assert_eq!(found("narrow"), signed(16, 4), "constant");
        assert_eq!(found("cgroups"), Some(FieldLocation { pointer: true, ..place(96, 8) }));
        assert_eq!(found("mm->end"), Some(FieldLocation { hops: vec![40], ..place(64, 8) }));
        assert_eq!(found("mm->plain[2].counter"), Some(FieldLocation { hops: vec![40], ..place(16, 8) }));
    }

    #[test]
    fn an_array_is_read_whole_and_its_element_alone() {
        let signed = |offset, size| Some(FieldLocation { signed: true, ..place(offset, size) });
        assert_eq!(found("comm"), signed(24, 16));
        assert_eq!(found("comm[0]"), signed(24, 1));
        assert_eq!(found("comm[15]"), signed(39, 1));
        for path in ["comm[16]", "table[2][0]", "words[0]", "mm->plain[4].counter"] {
            assert_eq!(found(path), None, "{path} is beyond the array");
        }
        assert_eq!(found("table"), signed(64, 24));
        assert_eq!(found("table[1]"), signed(76, 12));
        assert_eq!(found("table[1][2]"), signed(84, 4));
    }

    #[test]
    fn the_first_name_that_exists_is_used() {
        assert_eq!(found("__pid | pid | policy"), found("pid"));
        assert_eq!(found("policy|pid"), found("policy"));
        assert_eq!(found("__pid|_pid"), None);
    }

    #[test]
    fn what_verifiers_refuse_is_copied() {
        let copied = |path: &str| found(path).map(|place| (place.offset, place.copied));
        assert_eq!(copied("mm->plain[1].counter"), Some((8, false)));
        assert_eq!(copied("mm->count[1].counter"), Some((40, true)), "elements with another name");
    }

    #[test]
    fn what_no_register_holds_is_refused() {
        for path in ["huge", "mm->plain[0]", "mm->plain", "mm->count[0]", "words"] {
            assert_eq!(found(path), None, "{path}");
        }
    }

    #[test]
    fn malformed_paths_resolve_to_nothing() {
        let paths =
            ["", ".", "pid.", "pid->", "pid-", "mm.end", "pid->end", "mm->", "comm[", "comm[]", "comm[x]", "comm]"];
        for path in
            paths.into_iter().chain(["comm[-1]", "comm[4294967295]", "mm->end[0]", "cgroups->x", ".pid", "pid["])
        {
            assert_eq!(found(path), None, "{path}");
        }
    }

    /// Refuses bit fields in either encoding: by a flag of the structure, and by an integer of fewer bits.
    #[test]
    fn bit_fields_are_refused() {
        let mut built = TypeBuilder::new();
        let int = built.unsigned("unsigned int", 4);
        let three_bits = built.add(1, "three bits", 0, 4, &[3]);
        let (whole, bits) = (built.string("whole"), built.string("bits"));
        built.add(4, "flagged", 1 << 31 | 2, 8, &[whole, int, 32, bits, int, 1 << 24]);
        built.structure("old", 8, &[("whole", int, 4), ("bits", three_bits, 0)]);
        let bytes = built.finish();
        let btf = Btf::parse(&bytes).unwrap();
        for structure in ["flagged", "old"] {
            let structure = btf.find(kind::STRUCT, structure).unwrap();
            assert_eq!(resolve(&btf, structure, "whole"), Some(place(4, 4)));
            assert_eq!(resolve(&btf, structure, "bits"), None);
        }
    }

    #[test]
    fn structures_within_themselves_end_the_search() {
        let mut built = TypeBuilder::new();
        built.structure("cycle", 0, &[("", 1, 1), ("", 1, 1), ("itself", 1, 1 << 28)]);
        let bytes = built.finish();
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(resolve(&btf, TypeId(1), "absent"), None);
        assert_eq!(resolve(&btf, TypeId(1), &["itself"; 99].join(".")), None, "an offset beyond 32 bits");
    }
}

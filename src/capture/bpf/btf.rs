//! Types of the running kernel in BPF Type Format (Documentation/bpf/btf.rst).
//!
//! Types have no fixed size, so a pass over the file finds where some types start. Everything else is decoded when it is needed.
//! The bytes may be damaged, so every offset is checked.

use memchr::memmem;

/// `BTF_MAGIC`, in the byte order of the kernel.
const MAGIC: u16 = 0xeb9f;
const VERSION: u8 = 1;
/// Bytes of `struct btf_header` without the layout section, which later kernels append.
const HEADER_BYTES: usize = 24;
/// Bytes of `struct btf_type`.
const TYPE_BYTES: usize = 12;
/// Kinds of types: `BTF_KIND_*` of the kernel.
pub(super) mod kind {
    pub(in super::super) const INT: u32 = 1;
    pub(in super::super) const PTR: u32 = 2;
    pub(in super::super) const ARRAY: u32 = 3;
    pub(in super::super) const STRUCT: u32 = 4;
    pub(in super::super) const UNION: u32 = 5;
    pub(in super::super) const ENUM: u32 = 6;
    pub(in super::super) const FWD: u32 = 7;
    pub(in super::super) const TYPEDEF: u32 = 8;
    pub(in super::super) const VOLATILE: u32 = 9;
    pub(in super::super) const CONST: u32 = 10;
    pub(in super::super) const RESTRICT: u32 = 11;
    pub(in super::super) const FUNC: u32 = 12;
    pub(in super::super) const FUNC_PROTO: u32 = 13;
    pub(in super::super) const VAR: u32 = 14;
    pub(in super::super) const DATASEC: u32 = 15;
    pub(in super::super) const FLOAT: u32 = 16;
    pub(in super::super) const DECL_TAG: u32 = 17;
    pub(in super::super) const TYPE_TAG: u32 = 18;
    pub(in super::super) const ENUM64: u32 = 19;
}

/// The id of a type, which is its number in the file; 0 is `void`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypeId(pub u32);

/// The start of each type would take more memory, and time, than to pass over a few.
const STEP: usize = 32;

/// The types of a kernel.
#[derive(Debug)]
pub(super) struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Sizes of kinds that are unknown here.
    layout: &'a [u8],
    /// Where every [`STEP`]th type starts in its section, from type 1 on.
    starts: Vec<u32>,
}

impl<'a> Btf<'a> {
    /// Finds where each type starts, or what is wrong with the bytes.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let cut_off = || format!("the header is cut off after {} bytes", bytes.len());
        let magic = bytes.first_chunk().map(|&magic| u16::from_ne_bytes(magic)).ok_or_else(cut_off)?;
        if magic != MAGIC {
            return Err(format!("magic {magic:#06x} instead of {MAGIC:#06x}"));
        }
        let header = bytes.get(..HEADER_BYTES).ok_or_else(cut_off)?;
        if header[2] != VERSION {
            return Err(format!("unknown version {}", header[2]));
        }
        // All offsets are relative to the end of the header, whose size depends on the kernel.
        let length = size_at(bytes, 4).filter(|&length| length >= HEADER_BYTES).ok_or_else(cut_off)?;
        let (header, rest) = bytes.split_at_checked(length).ok_or_else(cut_off)?;
        let beyond = |name| format!("the {name} section ends beyond the file");
        let types = section(rest, header, 8).ok_or_else(|| beyond("type"))?;
        let strings = section(rest, header, 16).ok_or_else(|| beyond("string"))?;
        let layout = if length < HEADER_BYTES + 8 { None } else { section(rest, header, 24) };
        let layout = layout.unwrap_or_default();
        Ok(Self { types, strings, layout, starts: starts(types, layout)? })
    }

    /// The first type of that [`kind`] and name. Tracepoints are the typedefs `btf_trace_*`.
    pub(super) fn find(&self, kind: u32, name: &str) -> Option<TypeId> {
        // The section has each string once. The NUL in front excludes strings that only end alike.
        let place = memmem::find(self.strings, ["\0", name, "\0"].concat().as_bytes())?;
        let name = u32::try_from(place + 1).ok()?.to_ne_bytes();
        let (name, mut from) = (memmem::Finder::new(&name), 0);
        // A match may begin within another one.
        let named = std::iter::from_fn(|| {
            let place = from + name.find(self.types.get(from..)?)?;
            from = place + 1;
            Some(place)
        });
        named.filter_map(|place| self.starting(place)).find(|(_, found)| found.kind() == kind).map(|(id, _)| id)
    }

    /// The type that starts at a place of its section; `None` in the middle of one.
    fn starting(&self, place: usize) -> Option<(TypeId, Type<'a>)> {
        let before = self.starts.partition_point(|start| usize::try_from(*start).is_ok_and(|start| start <= place));
        let step = before.checked_sub(1)?;
        let start = |found: &Type<'_>| self.types.len() - found.tail.len() - TYPE_BYTES;
        let types = self.types_from(usize::try_from(self.starts[step]).ok()?);
        let (number, found) = (step * STEP + 1..).zip(types).find(|(_, found)| start(found) >= place)?;
        let id = TypeId(u32::try_from(number).ok()?);
        (start(&found) == place).then_some((id, found))
    }

    /// A type by its id; `None` for `void`.
    pub(super) fn at(&self, id: TypeId) -> Option<Type<'a>> {
        let index = usize::try_from(id.0.checked_sub(1)?).ok()?;
        self.types_from(usize::try_from(*self.starts.get(index / STEP)?).ok()?).nth(index % STEP)
    }

    /// The types from an offset on.
    fn types_from(&self, start: usize) -> impl Iterator<Item = Type<'a>> {
        let mut rest = self.types.get(start..).unwrap_or_default();
        std::iter::from_fn(move || {
            let found = Type::read(rest)?;
            rest = rest.get(found.bytes(self.layout)?..)?;
            Some(found)
        })
    }

    /// Whether `text` is the string at an offset.
    pub(super) fn is_string(&self, offset: u32, text: &str) -> bool {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.strings.get(offset..));
        let end = rest.and_then(|rest| rest.strip_prefix(text.as_bytes()));
        end.is_some_and(|end| end.first() == Some(&0))
    }
}

/// A type in the file: `struct btf_type` of the kernel.
#[derive(Clone, Copy)]
pub(super) struct Type<'a> {
    /// Older kernels use 5 of the 7 bits of the kind and 16 of the 24 of the number of entries; the others are zero.
    info: u32,
    /// The size, or the id of the type that it refers to.
    pub(super) size: u32,
    /// Bytes that follow: the rest of this type, then all later types.
    pub(super) tail: &'a [u8],
}

impl<'a> Type<'a> {
    /// The type at the start of `bytes`.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (_, tail) = bytes.split_at_checked(TYPE_BYTES)?;
        Some(Self { info: word(bytes, 4)?, size: word(bytes, 8)?, tail })
    }

    pub(super) fn kind(self) -> u32 {
        self.info >> 24 & 0x7f
    }

    /// Members, enumerators or parameters that follow.
    pub(super) fn entries(self) -> usize {
        usize::try_from(self.info & 0xff_ffff).unwrap_or(usize::MAX)
    }

    /// `kind_flag`: bit fields in a structure, or a signed enumeration.
    pub(super) fn flag(self) -> bool {
        self.info >> 31 == 1
    }

    /// Whether it is another name of a type, or has qualifiers or tags.
    pub(super) fn is_modifier(self) -> bool {
        matches!(self.kind(), kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG)
    }

    /// Returns the number of bytes of the type. The layout section of the file has the sizes of kinds that are unknown here.
    fn bytes(self, layout: &[u8]) -> Option<usize> {
        let (fixed, per_entry) = match self.kind() {
            kind::INT | kind::VAR | kind::DECL_TAG => (4, 0),
            kind::ARRAY => (12, 0),
            kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => (0, 12),
            kind::ENUM | kind::FUNC_PROTO => (0, 8),
            kind::PTR | kind::FWD | kind::FUNC | kind::FLOAT => (0, 0),
            _ if self.is_modifier() => (0, 0),
            unknown => {
                let at = usize::try_from(unknown).ok()? * 4;
                (usize::from(*layout.get(at)?), usize::from(*layout.get(at + 1)?))
            }
        };
        self.entries().checked_mul(per_entry)?.checked_add(TYPE_BYTES + fixed)
    }
}

/// Where every [`STEP`]th type starts.
fn starts(types: &[u8], layout: &[u8]) -> Result<Vec<u32>, String> {
    let (mut starts, mut rest) = (Vec::new(), types);
    for number in 0_usize.. {
        if rest.is_empty() {
            break;
        }
        if number % STEP == 0 {
            let start = types.len() - rest.len();
            starts.push(u32::try_from(start).expect("the header has the length of the section in 32 bits"));
        }
        let id = number + 1;
        let cut_off = || format!("type {id} is cut off");
        let found = Type::read(rest).ok_or_else(cut_off)?;
        let bytes = found.bytes(layout).ok_or_else(|| format!("type {id} has the unknown kind {}", found.kind()))?;
        rest = rest.get(bytes..).ok_or_else(cut_off)?;
    }
    Ok(starts)
}

/// The section whose offset and length are at `at` in the header.
fn section<'a>(rest: &'a [u8], header: &[u8], at: usize) -> Option<&'a [u8]> {
    let (start, length) = (size_at(header, at)?, size_at(header, at + 4)?);
    rest.get(start..start.checked_add(length)?)
}

fn size_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(word(bytes, at)?).ok()
}

/// The 32-bit number at an offset.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|&word| u32::from_ne_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::super::tests::type_builder::TypeBuilder;
    use super::*;

    #[test]
    fn types_are_found_by_kind_and_name() {
        let mut built = TypeBuilder::new();
        let int = built.signed("task", 4);
        let of_structure = built.structure("task", 4, &[("pid", int, 0)]);
        let of_typedef = built.typedef("task", int);
        let of_function = built.add(12, "a_function", 0, 0, &[]);
        let of_member = built.structure("pid", 0, &[]);
        let bytes = built.finish();
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.find(kind::STRUCT, "task"), Some(TypeId(of_structure)));
        assert_eq!(btf.find(kind::TYPEDEF, "task"), Some(TypeId(of_typedef)));
        assert_eq!(btf.find(kind::FUNC, "a_function"), Some(TypeId(of_function)));
        assert_eq!(btf.find(kind::STRUCT, "pid"), Some(TypeId(of_member)), "a member of that name comes first");
        assert_eq!(btf.find(kind::FUNC, "task"), None);
        assert_eq!(btf.find(kind::FUNC, "function"), None, "the end of another name");
        assert_eq!(btf.find(kind::FUNC, "a_func"), None, "the start of another name");
    }

    /// Every kind, so that the last type is only found if all sizes are right.
    #[test]
    fn every_kind_has_its_size() {
        let mut built = TypeBuilder::new();
        let int = built.signed("int", 4);
        built.pointer(int);
        built.array(int, 2);
        built.structure("s", 8, &[("a", int, 0), ("b", int, 4)]);
        built.union("u", 4, &[("a", int, 0)]);
        built.add(6, "e", 2, 4, &[0, 0, 0, 1]);
        for reference in [7, 8, 9, 10, 11, 12, 16, 18] {
            built.add(reference, "r", 0, int, &[]);
        }
        built.add(13, "", 2, int, &[0, int, 0, int]);
        built.add(14, "v", 0, int, &[0]);
        built.add(15, ".data", 2, 8, &[14, 0, 4, 14, 4, 4]);
        built.add(17, "tag", 0, int, &[u32::MAX]);
        built.add(19, "e64", 1, 8, &[0, 1, 0]);
        let last = built.structure("last", 0, &[]);
        let bytes = built.finish();
        assert_eq!(Btf::parse(&bytes).unwrap().find(kind::STRUCT, "last"), Some(TypeId(last)));
    }

    #[test]
    fn the_layout_section_gives_the_size_of_new_kinds() {
        let new_kind = || {
            let mut built = TypeBuilder::new();
            built.add(20, "new", 2, 0, &[7, 7, 7]);
            built.structure("last", 0, &[]);
            built
        };
        let unknown = "type 1 has the unknown kind 20";
        assert_eq!(Btf::parse(&new_kind().finish()).unwrap_err(), unknown);
        let mut layout = [0; 21 * 4];
        assert_eq!(Btf::parse(&new_kind().with_layout(&layout[..80])).unwrap_err(), unknown);
        layout[80..82].copy_from_slice(&[4, 4]);
        let bytes = new_kind().with_layout(&layout);
        assert_eq!(Btf::parse(&bytes).unwrap().find(kind::STRUCT, "last"), Some(TypeId(2)));
    }

    #[test]
    fn damaged_files_say_what_is_wrong() {
        let mut built = TypeBuilder::new();
        built.signed("int", 4);
        let bytes = built.finish();
        let damaged = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            Btf::parse(&bytes).unwrap_err()
        };
        let magic = u16::from_ne_bytes([0, bytes[1]]);
        assert_eq!(damaged(0, 0), format!("magic {magic:#06x} instead of 0xeb9f"));
        assert_eq!(damaged(2, 2), "unknown version 2");
        assert_eq!(damaged(4, 8), "the header is cut off after 45 bytes");
        assert_eq!(damaged(12, 15), "type 1 is cut off");
        assert_eq!(damaged(12, 200), "the type section ends beyond the file");
        assert_eq!(damaged(20, 200), "the string section ends beyond the file");
        assert_eq!(damaged(24 + 7, 99), "type 1 has the unknown kind 99");
        assert_eq!(damaged(24 + 7, 0), "type 1 has the unknown kind 0");
    }

    #[test]
    fn a_file_cut_off_anywhere_is_an_error() {
        let mut built = TypeBuilder::new();
        let int = built.signed("int", 4);
        built.structure("s", 4, &[("a", int, 0)]);
        let bytes = built.finish();
        for length in 0..bytes.len() {
            assert!(Btf::parse(&bytes[..length]).is_err(), "{length} bytes");
        }
    }
}

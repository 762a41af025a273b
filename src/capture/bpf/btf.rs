//! Types of the running kernel in BPF Type Format (Documentation/bpf/btf.rst).
//!
//! Types have no fixed size, so one pass finds where each starts. Everything else is decoded when asked for.
//! The bytes may be damaged: offsets are checked, and every walk over types has a limit.

use memchr::memmem;

/// `BTF_MAGIC`, in the byte order of the kernel.
const MAGIC: u16 = 0xeb9f;
const VERSION: u8 = 1;
/// Bytes of `struct btf_header` without the layout section, which later kernels append.
const HEADER_BYTES: usize = 24;
/// Bytes of `struct btf_type`.
const TYPE_BYTES: usize = 12;
/// Bytes of `struct btf_member`.
const MEMBER_BYTES: usize = 12;
/// Bytes of a pointer on the 64-bit kernels that the engine supports.
const POINTER_BYTES: u32 = 8;
/// Typedefs, qualifiers and tags in a row; kernels have fewer than 10.
const MAX_MODIFIERS: usize = 64;
/// Arrays of arrays; kernels have up to 3.
const MAX_DIMENSIONS: usize = 8;
/// Members examined by one look-up; the largest structures of kernels have some 300.
const MAX_MEMBERS: usize = 1 << 16;

/// `BTF_KIND_*`.
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const PTR: u32 = 2;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const FWD: u32 = 7;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const VOLATILE: u32 = 9;
    pub(super) const CONST: u32 = 10;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const FUNC: u32 = 12;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const FLOAT: u32 = 16;
    pub(super) const DECL_TAG: u32 = 17;
    pub(super) const TYPE_TAG: u32 = 18;
    pub(super) const ENUM64: u32 = 19;
}

/// Why bytes are not the BTF of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::capture) enum BtfError {
    /// The header is cut off.
    #[error("kernel BTF: the header is cut off after {0} bytes")]
    Header(usize),
    /// Another format, or another byte order.
    #[error("kernel BTF: magic {0:#06x} instead of 0xeb9f")]
    Magic(u16),
    /// Another version of the format.
    #[error("kernel BTF: unknown version {0}")]
    Version(u8),
    /// A section is not within the bytes.
    #[error("kernel BTF: the {0} section ends beyond the file")]
    Section(&'static str),
    /// A type is cut off by the end of its section.
    #[error("kernel BTF: type {0} is cut off")]
    Type(u32),
    /// A type whose size is unknown, and so where all later types start.
    #[error("kernel BTF: type {id} has the unknown kind {kind}")]
    Kind {
        /// The id of the type.
        id: u32,
        /// Its kind.
        kind: u32,
    },
}

/// The id of a type, which is its number in the file; 0 is `void`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::capture) struct TypeId(pub u32);

/// Kinds of types that are found by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::capture) enum Kind {
    /// A structure.
    Struct,
    /// A function of the kernel.
    Function,
    /// A typedef; tracepoints are the typedefs `btf_trace_*`.
    Typedef,
}

/// The types of a kernel.
#[derive(Debug)]
pub(in crate::capture) struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Where each type starts in its section, from type 1 on.
    starts: Vec<u32>,
}

/// What a type is, without typedefs, qualifiers and tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// An integer, a Boolean or an enumeration.
    Integer { size: u32, signed: bool },
    /// A pointer to a type.
    Pointer(TypeId),
    /// An array; its length is 0 if it is flexible.
    Array { element: TypeId, length: u32 },
    /// A structure or union.
    Structure { size: u32 },
}

impl Shape {
    /// Bytes of a value that is no array.
    fn bytes(self) -> Option<u32> {
        match self {
            Self::Integer { size, .. } | Self::Structure { size } => Some(size),
            Self::Pointer(_) => Some(POINTER_BYTES),
            Self::Array { .. } => None,
        }
    }
}

/// A member of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Bytes from the start of the structure.
    pub(super) offset: u32,
    pub(super) of_type: TypeId,
    /// Whether no other member follows it in the structure.
    pub(super) is_last: bool,
}

impl<'a> Btf<'a> {
    /// Finds where each type starts.
    pub(in crate::capture) fn parse(bytes: &'a [u8]) -> Result<Self, BtfError> {
        let cut_off = BtfError::Header(bytes.len());
        let magic = bytes.first_chunk().map(|&magic| u16::from_ne_bytes(magic)).ok_or(cut_off.clone())?;
        if magic != MAGIC {
            return Err(BtfError::Magic(magic));
        }
        let header = bytes.get(..HEADER_BYTES).ok_or(cut_off.clone())?;
        if header[2] != VERSION {
            return Err(BtfError::Version(header[2]));
        }
        // All offsets are relative to the end of the header, whose size depends on the kernel.
        let length = size_at(bytes, 4).filter(|&length| length >= HEADER_BYTES).ok_or(cut_off.clone())?;
        let (header, rest) = bytes.split_at_checked(length).ok_or(cut_off)?;
        let types = section(rest, header, 8).ok_or(BtfError::Section("type"))?;
        let strings = section(rest, header, 16).ok_or(BtfError::Section("string"))?;
        let layout = if length < HEADER_BYTES + 8 { None } else { section(rest, header, 24) };
        Ok(Self { types, strings, starts: starts(types, layout.unwrap_or_default())? })
    }

    /// The first type of that kind and name.
    pub(in crate::capture) fn find(&self, kind: Kind, name: &str) -> Option<TypeId> {
        let wanted = match kind {
            Kind::Struct => kind::STRUCT,
            Kind::Function => kind::FUNC,
            Kind::Typedef => kind::TYPEDEF,
        };
        // The section has each string once.
        let name = self.string_offset(name)?;
        let is_wanted = |&start: &u32| {
            usize::try_from(start).is_ok_and(|start| {
                word(self.types, start) == Some(name)
                    && word(self.types, start + 4).is_some_and(|info| Info(info).kind() == wanted)
            })
        };
        let index = self.starts.iter().position(is_wanted)?;
        Some(TypeId(u32::try_from(index + 1).ok()?))
    }

    /// What a type is; `None` for types without values, such as `void`, and for those no register holds.
    pub(super) fn shape(&self, id: TypeId) -> Option<Shape> {
        let Type { start, info, size } = self.without_modifiers(id)?;
        Some(match info.kind() {
            kind::INT => {
                let encoding = word(self.types, start + TYPE_BYTES)?;
                let (signed, offset, bits) = (encoding >> 24 & 1 == 1, encoding >> 16 & 0xff, encoding & 0xff);
                // One of the two encodings of bit fields is an integer of fewer bits.
                let is_whole = offset == 0 && size.checked_mul(8) == Some(bits);
                return (is_whole && is_loadable(size)).then_some(Shape::Integer { size, signed });
            }
            kind::ENUM | kind::ENUM64 => {
                return is_loadable(size).then_some(Shape::Integer { size, signed: info.flag() });
            }
            kind::PTR => Shape::Pointer(TypeId(size)),
            kind::ARRAY => {
                let element = word(self.types, start + TYPE_BYTES)?;
                Shape::Array { element: TypeId(element), length: word(self.types, start + TYPE_BYTES + 8)? }
            }
            kind::STRUCT | kind::UNION => Shape::Structure { size },
            _ => return None,
        })
    }

    /// Whether a type is another name of one, or has qualifiers or tags.
    pub(super) fn is_modified(&self, id: TypeId) -> bool {
        self.at(id).is_some_and(|found| found.info.is_modifier())
    }

    /// What the elements of an array are, and their number, for arrays of arrays too; for other types, the type and 1.
    pub(super) fn elements(&self, mut id: TypeId) -> Option<(Shape, u32)> {
        let mut elements = 1_u32;
        for _ in 0..MAX_DIMENSIONS {
            match self.shape(id)? {
                Shape::Array { element, length } => (id, elements) = (element, elements.checked_mul(length)?),
                shape => return Some((shape, elements)),
            }
        }
        None
    }

    /// Bytes of a value of a type.
    pub(super) fn size(&self, id: TypeId) -> Option<u32> {
        let (shape, elements) = self.elements(id)?;
        shape.bytes()?.checked_mul(elements)
    }

    /// A member of a structure by name. Anonymous members are looked through. Bit fields are no members.
    pub(super) fn member(&self, structure: TypeId, name: &str) -> Option<Member> {
        let mut left = MAX_MEMBERS;
        let mut pending = vec![Member { offset: 0, of_type: structure, is_last: true }];
        while let Some(outer) = pending.pop() {
            let Some(Type { start, info, .. }) = self.without_modifiers(outer.of_type) else { continue };
            if !matches!(info.kind(), kind::STRUCT | kind::UNION) {
                continue;
            }
            for index in 0..info.entries() {
                left = left.checked_sub(1)?;
                let at = start + TYPE_BYTES + index * MEMBER_BYTES;
                let is_last = outer.is_last && info.kind() == kind::STRUCT && index + 1 == info.entries();
                let string = word(self.types, at)?;
                if string == 0 {
                    pending.extend(self.whole_member(at, info, outer.offset).map(|inner| Member { is_last, ..inner }));
                } else if self.is_string(string, name) {
                    return self.whole_member(at, info, outer.offset).map(|found| Member { is_last, ..found });
                }
            }
        }
        None
    }

    /// The `struct btf_member` at `at`, in a structure at `base`; `None` for bit fields.
    fn whole_member(&self, at: usize, info: Info, base: u32) -> Option<Member> {
        let (of_type, place) = (word(self.types, at + 4)?, word(self.types, at + 8)?);
        let (width, bits) = if info.flag() { (place >> 24, place & 0xff_ffff) } else { (0, place) };
        let offset = base.checked_add(bits / 8)?;
        (width == 0 && bits % 8 == 0).then_some(Member { offset, of_type: TypeId(of_type), is_last: false })
    }

    fn at(&self, id: TypeId) -> Option<Type> {
        let index = usize::try_from(id.0.checked_sub(1)?).ok()?;
        let start = usize::try_from(*self.starts.get(index)?).ok()?;
        Some(Type { start, info: Info(word(self.types, start + 4)?), size: word(self.types, start + 8)? })
    }

    /// The type that typedefs, qualifiers and tags lead to.
    fn without_modifiers(&self, mut id: TypeId) -> Option<Type> {
        for _ in 0..MAX_MODIFIERS {
            let found = self.at(id)?;
            if !found.info.is_modifier() {
                return Some(found);
            }
            id = TypeId(found.size);
        }
        None
    }

    /// The offset of a string in its section.
    fn string_offset(&self, text: &str) -> Option<u32> {
        // The NUL in front excludes strings that only end alike.
        let wanted = ["\0", text, "\0"].concat();
        let found = memmem::find(self.strings, wanted.as_bytes())?;
        u32::try_from(found + 1).ok()
    }

    /// Whether `text` is the string at an offset.
    fn is_string(&self, offset: u32, text: &str) -> bool {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.strings.get(offset..));
        let end = rest.and_then(|rest| rest.strip_prefix(text.as_bytes()));
        end.is_some_and(|end| end.first() == Some(&0))
    }
}

/// `struct btf_type`.
struct Type {
    start: usize,
    info: Info,
    /// The size, or the id of the type that it refers to.
    size: u32,
}

/// `btf_type.info`. Older kernels use 5 of the 7 bits of the kind and 16 of the 24 of the number of entries; the
/// others are zero.
#[derive(Clone, Copy)]
struct Info(u32);

impl Info {
    fn kind(self) -> u32 {
        self.0 >> 24 & 0x7f
    }

    /// Members, enumerators or parameters that follow.
    fn entries(self) -> usize {
        usize::try_from(self.0 & 0xff_ffff).unwrap_or(usize::MAX)
    }

    /// `kind_flag`: bit fields in a structure, or a signed enumeration.
    fn flag(self) -> bool {
        self.0 >> 31 == 1
    }

    fn is_modifier(self) -> bool {
        matches!(self.kind(), kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG)
    }

    /// Bytes of the type. The layout section of the file gives those of kinds that are unknown here.
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

/// Where each type starts.
fn starts(types: &[u8], layout: &[u8]) -> Result<Vec<u32>, BtfError> {
    // Types of kernels have 24 bytes on average.
    let mut starts = Vec::with_capacity(types.len() / 24);
    let mut start = 0;
    while start < types.len() {
        let id = u32::try_from(starts.len() + 1).unwrap_or(u32::MAX);
        let info = word(types, start + 4).map(Info).ok_or(BtfError::Type(id))?;
        let bytes = info.bytes(layout).ok_or(BtfError::Kind { id, kind: info.kind() })?;
        let end = start.checked_add(bytes).filter(|&end| end <= types.len()).ok_or(BtfError::Type(id))?;
        starts.push(u32::try_from(start).expect("the header has the length of the section in 32 bits"));
        start = end;
    }
    Ok(starts)
}

/// Whether one instruction loads a value of that many bytes.
fn is_loadable(bytes: u32) -> bool {
    matches!(bytes, 1 | 2 | 4 | 8)
}

/// The section whose offset and length are at `at` in the header.
fn section<'a>(rest: &'a [u8], header: &[u8], at: usize) -> Option<&'a [u8]> {
    let (start, length) = (size_at(header, at)?, size_at(header, at + 4)?);
    rest.get(start..start.checked_add(length)?)
}

fn size_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(word(bytes, at)?).ok()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|&word| u32::from_ne_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::super::type_builder::TypeBuilder;
    use super::*;

    #[test]
    fn types_are_found_by_kind_and_name() {
        let mut built = TypeBuilder::new();
        let int = built.signed("task", 4);
        let of_structure = built.structure("task", 4, &[("pid", int, 0)]);
        let of_typedef = built.typedef("task", int);
        let of_function = built.add(12, "a_function", 0, 0, &[]);
        let bytes = built.finish();
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.find(Kind::Struct, "task"), Some(TypeId(of_structure)));
        assert_eq!(btf.find(Kind::Typedef, "task"), Some(TypeId(of_typedef)));
        assert_eq!(btf.find(Kind::Function, "a_function"), Some(TypeId(of_function)));
        assert_eq!(btf.find(Kind::Function, "task"), None);
        assert_eq!(btf.find(Kind::Function, "function"), None, "the end of another name");
        assert_eq!(btf.find(Kind::Function, "a_func"), None, "the start of another name");
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
        assert_eq!(Btf::parse(&bytes).unwrap().find(Kind::Struct, "last"), Some(TypeId(last)));
    }

    #[test]
    fn the_layout_section_gives_the_size_of_new_kinds() {
        let new_kind = || {
            let mut built = TypeBuilder::new();
            built.add(20, "new", 2, 0, &[7, 7, 7]);
            built.structure("last", 0, &[]);
            built
        };
        let unknown = BtfError::Kind { id: 1, kind: 20 };
        assert_eq!(Btf::parse(&new_kind().finish()).unwrap_err(), unknown);
        let mut layout = [0; 21 * 4];
        assert_eq!(Btf::parse(&new_kind().with_layout(&layout[..80])).unwrap_err(), unknown);
        layout[80..82].copy_from_slice(&[4, 4]);
        let bytes = new_kind().with_layout(&layout);
        assert_eq!(Btf::parse(&bytes).unwrap().find(Kind::Struct, "last"), Some(TypeId(2)));
    }

    #[test]
    fn damaged_files_say_what_is_wrong() {
        let mut built = TypeBuilder::new();
        built.signed("int", 4);
        let bytes = built.finish();
        let damaged = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            Btf::parse(&bytes).unwrap_err().to_string()
        };
        assert_eq!(
            damaged(0, 0),
            format!("kernel BTF: magic {:#06x} instead of 0xeb9f", u16::from_ne_bytes([0, bytes[1]]))
        );
        assert_eq!(damaged(2, 2), "kernel BTF: unknown version 2");
        assert_eq!(damaged(4, 8), "kernel BTF: the header is cut off after 45 bytes");
        assert_eq!(damaged(12, 15), "kernel BTF: type 1 is cut off");
        assert_eq!(damaged(12, 200), "kernel BTF: the type section ends beyond the file");
        assert_eq!(damaged(20, 200), "kernel BTF: the string section ends beyond the file");
        assert_eq!(damaged(24 + 7, 99), "kernel BTF: type 1 has the unknown kind 99");
        assert_eq!(damaged(24 + 7, 0), "kernel BTF: type 1 has the unknown kind 0");
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

    #[test]
    fn types_that_refer_to_themselves_have_no_shape() {
        let mut built = TypeBuilder::new();
        built.typedef("cycle", 1);
        built.array(2, 1);
        built.structure("s", 0, &[("", 3, 0), ("", 3, 0)]);
        built.add(10, "", 0, 1, &[]);
        let bytes = built.finish();
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.shape(TypeId(1)), None);
        assert_eq!(btf.shape(TypeId(4)), None);
        assert_eq!(btf.size(TypeId(2)), None);
        assert_eq!(btf.member(TypeId(3), "absent"), None);
        assert_eq!(btf.shape(TypeId(0)), None);
        assert_eq!(btf.shape(TypeId(99)), None);
    }
}

//! Shapes of types, and the members of structures.
//!
//! Types may be damaged and refer to themselves, so every walk has a limit.

use super::btf::{Btf, Type, TypeId, kind, word};

/// Bytes of `struct btf_member`.
const MEMBER_BYTES: usize = 12;
/// Bytes of `struct btf_enum`.
const ENUMERATOR_BYTES: usize = 8;
/// Bytes of a pointer on the 64-bit kernels that the engine supports.
const POINTER_BYTES: u32 = 8;
/// Flag of signed integers: `BTF_INT_SIGNED`.
const SIGNED: u32 = 1;
/// Typedefs, qualifiers and tags in a row; kernels have fewer than 10.
const MAX_MODIFIERS: usize = 64;
/// Arrays of arrays; kernels have up to 3.
const MAX_DIMENSIONS: usize = 8;
/// Members examined by one look-up; the largest structures of kernels have some 300.
const MAX_MEMBERS: usize = 1 << 14;

/// Shape of a type, without typedefs, qualifiers and tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypeShape {
    /// An integer, a Boolean or an enumeration.
    Integer {
        size: u32,
        signed: bool,
    },
    Pointer(TypeId),
    /// An array; its length is 0 if it is flexible.
    Array {
        element: TypeId,
        length: u32,
    },
    /// A structure or a union.
    Structure {
        size: u32,
    },
}

impl TypeShape {
    /// Bytes of a value that is no array.
    fn bytes(self) -> Option<u32> {
        match self {
            Self::Integer { size, .. } | Self::Structure { size } => Some(size),
            Self::Pointer(_) => Some(POINTER_BYTES),
            Self::Array { .. } => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StructMember {
    /// Bytes from the start of the structure.
    pub(super) offset: u32,
    pub(super) id: TypeId,
}

impl Btf<'_> {
    /// Returns the shape of a type; `None` for types without values, such as `void`, and for types that no register holds.
    pub(super) fn shape(&self, id: TypeId) -> Option<TypeShape> {
        let found = self.without_modifiers(id)?;
        let Type { size, tail, .. } = found;
        match found.kind() {
            kind::INT => whole_integer(size, word(tail, 0)?),
            kind::ENUM | kind::ENUM64 => integer(size, found.flag()),
            kind::PTR => Some(TypeShape::Pointer(TypeId(size))),
            kind::ARRAY => Some(TypeShape::Array { element: TypeId(word(tail, 0)?), length: word(tail, 8)? }),
            kind::STRUCT | kind::UNION => Some(TypeShape::Structure { size }),
            _ => None,
        }
    }

    /// The elements of an array, which may be of arrays, and their number; for other types, the type and 1.
    pub(super) fn elements(&self, mut id: TypeId) -> Option<(TypeShape, u32)> {
        let mut elements = 1_u32;
        for _ in 0..MAX_DIMENSIONS {
            match self.shape(id)? {
                TypeShape::Array { element, length } => (id, elements) = (element, elements.checked_mul(length)?),
                shape => return Some((shape, elements)),
            }
        }
        None
    }

    pub(super) fn size(&self, id: TypeId) -> Option<u32> {
        let (shape, elements) = self.elements(id)?;
        shape.bytes()?.checked_mul(elements)
    }

    /// The value of an enumerator of an enumeration.
    pub(super) fn enumerator(&self, enumeration: &str, name: &str) -> Option<u32> {
        let found = self.at(self.find(kind::ENUM, enumeration)?)?;
        let mut enumerators = found.tail.chunks_exact(ENUMERATOR_BYTES).take(found.entries());
        let enumerator = enumerators.find(|bytes| word(bytes, 0).is_some_and(|string| self.is_string(string, name)))?;
        word(enumerator, 4)
    }

    /// A member of a structure by name, also in anonymous members. `None` for bit fields.
    pub(super) fn member(&self, structure: TypeId, name: &str) -> Option<StructMember> {
        let mut left = MAX_MEMBERS;
        let mut pending = vec![StructMember { offset: 0, id: structure }];
        while let Some(outer) = pending.pop() {
            let found = self.without_modifiers(outer.id);
            let Some(found) = found.filter(|found| [kind::STRUCT, kind::UNION].contains(&found.kind())) else {
                continue;
            };
            for bytes in found.tail.chunks_exact(MEMBER_BYTES).take(found.entries()) {
                left = left.checked_sub(1)?;
                let string = word(bytes, 0)?;
                if string == 0 || self.is_string(string, name) {
                    let member = whole_member(bytes, found.flag(), outer.offset);
                    if string > 0 {
                        return member;
                    }
                    pending.extend(member);
                }
            }
        }
        None
    }

    /// The type that typedefs, qualifiers and tags lead to.
    fn without_modifiers(&self, mut id: TypeId) -> Option<Type<'_>> {
        for _ in 0..MAX_MODIFIERS {
            let found = self.at(id)?;
            if !found.is_modifier() {
                return Some(found);
            }
            id = TypeId(found.size);
        }
        None
    }
}

/// The integer with the encoding that follows a `BTF_KIND_INT`; `None` if it is the type of a bit field.
fn whole_integer(size: u32, encoding: u32) -> Option<TypeShape> {
    let (flags, offset, bits) = (encoding >> 24, encoding >> 16 & 0xff, encoding & 0xff);
    let is_whole = offset == 0 && size.checked_mul(8) == Some(bits);
    integer(size, flags & SIGNED != 0).filter(|_| is_whole)
}

/// An integer that a register holds.
fn integer(size: u32, signed: bool) -> Option<TypeShape> {
    matches!(size, 1 | 2 | 4 | 8).then_some(TypeShape::Integer { size, signed })
}

/// The member that `bytes` describe, in a structure at offset `outer` that may have bit fields; `None` for those.
fn whole_member(bytes: &[u8], has_bit_fields: bool, outer: u32) -> Option<StructMember> {
    let (id, place) = (TypeId(word(bytes, 4)?), word(bytes, 8)?);
    let (width, bits) = if has_bit_fields { (place >> 24, place & 0xff_ffff) } else { (0, place) };
    let offset = outer.checked_add(bits / 8)?;
    (width == 0 && bits % 8 == 0).then_some(StructMember { offset, id })
}

#[cfg(test)]
mod tests {
    use super::super::tests::type_builder::TypeBuilder;
    use super::*;

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
    }

    #[test]
    fn void_and_unknown_types_have_no_shape() {
        let bytes = TypeBuilder::new().finish();
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!([TypeId(0), TypeId(1), TypeId(u32::MAX)].map(|id| btf.shape(id)), [None; 3]);
    }
}

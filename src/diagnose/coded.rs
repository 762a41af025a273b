//! Enums with a stable code per variant, which reports print and scripts can use.

/// Makes an enum whose variants have codes, and the list of all codes with their meaning.
macro_rules! coded {
    ($(#[$meta:meta])* pub enum $name:ident {
        $(#[doc = $doc:literal] $variant:ident $({ $(#[doc = $field_doc:literal] $field:ident: $type:ty,)+ })? = $code:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $(#[doc = $doc] $variant $({ $(#[doc = $field_doc] $field: $type,)+ })?,)+
        }

        impl $name {
            /// Every code, with its meaning.
            pub const CODES: &'static [(&'static str, &'static str)] = &[$(($code, $doc.trim_ascii()),)+];

            /// The stable code.
            #[must_use]
            pub fn code(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $code,)+
                }
            }
        }
    };
}

/// Serializes a value as its code and its message.
macro_rules! serialize_coded {
    ($name:ident) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct;
                let mut object = serializer.serialize_struct(stringify!($name), 2)?;
                object.serialize_field("code", self.code())?;
                object.serialize_field("message", &self.to_string())?;
                object.end()
            }
        }
    };
}

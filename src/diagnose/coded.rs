//! Enums with a stable code per variant, which reports print and scripts can use.

/// Makes an enum whose rows have a meaning, a code, a message and perhaps a fix, and the list of all codes with their
/// meaning. In JSON, it is an object of code and message.
macro_rules! coded {
    ($(#[$meta:meta])* pub enum $name:ident {
        $(#[doc = $doc:literal] $variant:ident $({ $($field:ident: $type:ty),+ })? = $code:literal,
            ($($message:tt)+) $(, $fix:expr)?;)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the messages show what the fields are")]
        pub enum $name {
            $(#[doc = $doc] $variant $({ $($field: $type,)+ })?,)+
        }

        impl $name {
            /// Every code, with its meaning.
            pub const CODES: &'static [(&'static str, &'static str)] = &[$(($code, $doc.trim_ascii()),)+];

            /// Returns the code, which scripts can rely on.
            pub fn code(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $code,)+
                }
            }

            /// The fix, if it depends on nothing else.
            #[allow(dead_code, unused_variables, reason = "few rows have a fix")]
            pub(super) fn fix(&self) -> Option<$crate::diagnose::Fix> {
                match self {
                    $(Self::$variant $({ $($field),+ })? => None$(.or($fix.into()))?,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            #[allow(unused_variables, reason = "few messages have all fields")]
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$variant $({ $($field),+ })? => write!(f, $($message)+),)+
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map([("code", self.code()), ("message", &self.to_string())])
            }
        }
    };
}

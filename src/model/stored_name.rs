//! Enums of names that files store: known names are variants, unknown ones are kept as they are.

/// A sentence as a clause of another one.
pub(crate) fn clause(sentence: &str) -> String {
    let mut clause = sentence.trim_end_matches('.').to_owned();
    let is_name = clause.starts_with("BPF");
    if let Some(first) = clause.get_mut(..1).filter(|_| !is_name) {
        first.make_ascii_lowercase();
    }
    clause
}

/// Makes an enum of stored names. The doc of a variant is also its [`meaning`](super::Errno::meaning).
macro_rules! stored_names {
    ($(#[$meta:meta])* pub enum $name:ident { $(#[doc = $doc:literal] $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $(#[doc = $doc] $variant,)+
            /// A name that this version does not know.
            Other(Box<str>),
        }

        impl $name {
            /// Every variant with a known name.
            pub const KNOWN: &'static [Self] = &[$(Self::$variant,)+];

            /// The name in files.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(name) => name,
                }
            }

            /// Returns the meaning as a sentence; `None` for an unknown name.
            pub fn meaning(&self) -> Option<&'static str> {
                match self {
                    $(Self::$variant => Some($doc.trim_ascii()),)+
                    Self::Other(_) => None,
                }
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                match name {
                    $($text => Self::$variant,)+
                    unknown => Self::Other(unknown.into()),
                }
            }
        }

        // By name: the order of keys in files is that of their text.
        impl Ord for $name {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                self.name().cmp(other.name())
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <std::borrow::Cow<'_, str>>::deserialize(deserializer).map(|name| Self::from(&*name))
            }
        }
    };
}

pub(crate) use stored_names;

//! Data about a host and its threads. No I/O, no system calls, no printing.

/// Declares a record whose fields can be missing in files: an `optional` field is left out if it has no value, or its
/// [`Default`].
macro_rules! stored {
    ($(#[$meta:meta])* pub struct $name:ident { $($fields:tt)* }) => { stored! { [$(#[$meta])*] $name {} $($fields)* } };
    ([$($meta:tt)*] $name:ident { $($done:tt)* }) => {
        $($meta)*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[non_exhaustive]
        #[serde(default)]
        pub struct $name { $($done)* }
    };
    ($meta:tt $name:ident { $($done:tt)* } $(#[$doc:meta])* pub $field:ident: $type:ty, $($others:tt)*) => {
        stored! { $meta $name { $($done)* $(#[$doc])* pub $field: $type, } $($others)* }
    };
    ($meta:tt $name:ident { $($done:tt)* } $(#[$doc:meta])* optional $field:ident: $type:ty, $($others:tt)*) => {
        stored! { $meta $name {
            $($done)* $(#[$doc])* #[serde(skip_serializing_if = "crate::model::is_default")] pub $field: $type,
        } $($others)* }
    };
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// An enum whose variants have names in listings.
macro_rules! named {
    ($(#[$meta:meta])* pub enum $type:ident { $(#[doc = $doc:literal] $variant:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $type { $(#[doc = $doc] $variant,)+ }

        impl $type {
            /// All variants, in their order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name in listings.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Returns the meaning, as a sentence.
            pub fn doc(self) -> &'static str {
                match self { $(Self::$variant => $doc.trim_ascii(),)+ }
            }
        }
    };
}
pub(crate) use named;

mod amount;
mod census;
mod cgroup;
mod cgroup_source;
mod code;
mod container;
mod cpus;
mod delay;
mod derived;
mod direction;
mod engine;
mod failure;
mod heap;
mod host;
mod kernel_field;
mod limit;
mod metrics;
mod name;
mod numbered_values;
mod process;
mod process_selection;
mod psi;
mod reason_sums;
mod reasons;
mod record;
mod record_listing;
mod record_types;
mod reduce;
mod sample;
mod sched_ext;
mod section;
mod shared_stacks;
mod snapshot;
pub(crate) mod sorted;
mod source;
mod stored_name;
mod summary;
mod table;
mod thread;
mod total;
mod unit;
mod value;
mod window;
mod window_rule;

pub(crate) use self::{
    amount::*, cgroup_source::*, kernel_field::*, numbered_values::*, record_listing::*, shared_stacks::*,
    stored_name::*,
};
pub use self::{
    census::*, cgroup::*, code::*, container::*, cpus::*, derived::*, direction::*, engine::*, failure::*, heap::*,
    host::*, limit::*, name::*, process::*, process_selection::*, psi::*, reason_sums::*, reasons::*, record::*,
    record_types::*, reduce::*, sample::*, sched_ext::*, section::*, snapshot::*, source::*, summary::*, table::*,
    thread::*, total::*, unit::*, value::*, window::*, window_rule::*,
};

//! ELF files that processes have mapped. Their owners choose what is in them: what they may take of memory and time is limited.

pub(in crate::capture) mod headers;
pub(in crate::capture) mod machine;
pub(in crate::capture) mod mapped_file;
pub(in crate::capture) mod mappings;
pub(in crate::capture) mod modules;
pub(in crate::capture) mod untrusted;

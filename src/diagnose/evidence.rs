//! The input of findings.

use std::collections::BTreeSet;

use super::{Capability, Fix};
use crate::model::sorted::CollectSorted;
use crate::model::{Census, HostContext, SnapshotHead};

/// The head of a snapshot, the census of its threads, and the capabilities that the capture held.
pub(super) struct Evidence<'s> {
    pub(super) head: &'s SnapshotHead,
    pub(super) census: &'s Census,
    held: BTreeSet<Capability>,
    is_root: bool,
    /// Whether the caller may look into processes of others without the capabilities of ctprof's file.
    pub(super) is_privileged: bool,
}

impl<'s> Evidence<'s> {
    pub(super) fn new(head: &'s SnapshotHead, census: &'s Census) -> Self {
        let capture = head.capture.as_ref();
        // Fixes are commands to copy, and a snapshot can come from anywhere.
        let is_name = |name: &&String| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let held = capture.into_iter().flat_map(|capture| &capture.capabilities).filter(is_name);
        let held: BTreeSet<Capability> = held.map(|name| (&**name).into()).into_set();
        let is_root = capture.is_some_and(|capture| capture.euid == 0);
        let has_ambient = |name: &str| capture.is_some_and(|capture| capture.ambient.iter().any(|one| one == name));
        let is_privileged = is_root || has_ambient("cap_sys_ptrace");
        Self { head, census, held, is_root, is_privileged }
    }

    pub(super) fn host(&self) -> Option<&'s HostContext> {
        self.head.host.as_ref()
    }

    /// Whether the capability, or one that includes it, was held.
    pub(super) fn holds(&self, capability: &Capability) -> bool {
        let wider = match capability {
            Capability::DacReadSearch => Some(Capability::DacOverride),
            Capability::Bpf | Capability::Perfmon => Some(Capability::SysAdmin),
            _ => None,
        };
        self.held.contains(capability) || wider.is_some_and(|wider| self.held.contains(&wider))
    }

    pub(super) fn is_by_bpf(&self) -> bool {
        self.head.capture.as_ref().is_some_and(|capture| capture.bpf.is_some())
    }

    /// Merges all fixes by capabilities into one, because `setcap` replaces earlier grants: it grants the missing capabilities,
    /// and keeps the file's own.
    pub(super) fn grant<'f>(&self, fixes: impl Iterator<Item = &'f mut Fix>) {
        let mut all = BTreeSet::new();
        let mut grants = Vec::new();
        for fix in fixes {
            if let Fix::Setcap(capabilities) = fix {
                all.append(capabilities);
                grants.push(fix);
            }
        }
        let missing = all.into_iter().filter(|capability| !self.holds(capability));
        let is_confined = self.head.capture.as_ref().is_some_and(|capture| capture.confined);
        let fix = if self.is_root || is_confined {
            Fix::GrantToRoot(missing.collect())
        } else {
            Fix::Setcap(missing.chain(self.held.iter().cloned()).collect())
        };
        grants.into_iter().for_each(|grant| *grant = fix.clone());
    }
}

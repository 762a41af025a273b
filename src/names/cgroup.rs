//! Patterns of cgroup paths: ids of instances are replaced in each segment, names stay.

use super::token::{LONG_ID, is_digits, is_uuid};

/// The pattern of a cgroup path.
///
/// ```
/// use ctprof::names::cgroup_pattern;
/// assert_eq!(cgroup_pattern("/user.slice/user-1000.slice/session-3.scope"), "/user.slice/user-1000.slice/session-{N}.scope");
/// assert_eq!(cgroup_pattern("/system.slice/getty@tty1.service"), "/system.slice/getty@{I}.service");
/// ```
#[must_use]
pub fn cgroup_pattern(path: &str) -> String {
    let mut pattern = String::with_capacity(path.len());
    for (at, text) in path.split('/').enumerate() {
        let segment = Segment::parse(text);
        pattern.extend((at > 0).then_some('/'));
        pattern.extend([segment.name, segment.id.map_or("", |(id, _)| id.placeholder()), segment.unit]);
    }
    pattern
}

/// A segment of a path: a name, an optional id, an optional type of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment<'p> {
    pub(super) name: &'p str,
    pub(super) id: Option<(Id, &'p str)>,
    /// `.service` and the like; empty if the segment is not a unit.
    pub(super) unit: &'p str,
}

/// The id of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Id {
    /// A name of an instance, after `@`.
    Instance,
    /// A number, perhaps after a letter.
    Number,
    /// Random hexadecimal digits, perhaps after `r`.
    Hex,
    /// A UUID, or in a pod's name a hash.
    Uuid,
}

impl Id {
    fn placeholder(self) -> &'static str {
        match self {
            Self::Instance => "{I}",
            Self::Number => "{N}",
            Self::Hex => "{H}",
            Self::Uuid => "{U}",
        }
    }
}

impl<'p> Segment<'p> {
    pub(super) fn parse(text: &'p str) -> Self {
        let at = match text.rsplit_once('.') {
            Some((stem, "service" | "scope" | "slice" | "socket" | "mount")) => stem.len(),
            _ => text.len(),
        };
        let (stem, unit) = text.split_at(at);
        let found = instance(stem)
            .or_else(|| numbered(stem))
            .or_else(|| pod(stem))
            .or_else(|| container(stem))
            .or_else(|| uuid(stem));
        let Some((id, at)) = found else { return Self { name: stem, id: None, unit } };
        let (name, text) = stem.split_at(at);
        Self { name, id: Some((id, text)), unit }
    }
}

/// An id at the end of a unit's name, and the offset where it begins.
type FoundId = Option<(Id, usize)>;

/// systemd's `name@instance`.
fn instance(stem: &str) -> FoundId {
    let at = stem.find('@')? + 1;
    (at < stem.len()).then_some((Id::Instance, at))
}

/// Login sessions `session-3`, `session-c2`, and transient units `run-u12`, `run-p311-i312`,
/// `run-r<hex>`.
fn numbered(stem: &str) -> FoundId {
    const SESSION: &str = "session-";
    const RUN: &str = "run-";
    if let Some(id) = stem.strip_prefix(SESSION) {
        return is_digits(id.strip_prefix('c').unwrap_or(id)).then_some((Id::Number, SESSION.len()));
    }
    let id = stem.strip_prefix(RUN)?;
    let is_number = |part: &str| is_digits(part.strip_prefix('i').unwrap_or(part));
    if id.strip_prefix('r').is_some_and(is_random) {
        Some((Id::Hex, RUN.len()))
    } else {
        id.strip_prefix(['u', 'p'])?.split('-').all(is_number).then_some((Id::Number, RUN.len()))
    }
}

/// Kubernetes' `pod<uid>`, alone or at the end of a slice's name; the uid has `-` or `_`. A static
/// pod has a hash instead.
fn pod(stem: &str) -> FoundId {
    let at = stem.rfind("pod").filter(|&at| at == 0 || stem[..at].ends_with('-'))? + "pod".len();
    let uid = &stem[at..];
    (is_uuid(uid, '-') || is_uuid(uid, '_') || is_random(uid)).then_some((Id::Uuid, at))
}

/// A container's id, alone or after the runtime's name: `docker-<id>`, `cri-containerd-<id>`.
fn container(stem: &str) -> FoundId {
    let at = stem.len().checked_sub(64)?;
    let (runtime, id) = stem.split_at_checked(at)?;
    let is_apart = runtime.is_empty() || runtime.ends_with(['-', ':', '_']);
    (is_apart && is_random(id)).then_some((Id::Hex, at))
}

/// A UUID at the end, which snap gives to each start of a program.
fn uuid(stem: &str) -> FoundId {
    let at = stem.len().checked_sub(36)?;
    let (name, id) = stem.split_at_checked(at)?;
    (is_uuid(id, '-') && (name.is_empty() || name.ends_with('-'))).then_some((Id::Uuid, at))
}

/// Whether a text is a random id in hexadecimal digits.
fn is_random(text: &str) -> bool {
    text.len() >= LONG_ID && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_ids_go_and_names_stay() {
        let id = "0123456789abcdef".repeat(4);
        for (path, pattern) in [
            ("/".to_owned(), "/"),
            ("/system.slice/ssh.service".into(), "/system.slice/ssh.service"),
            ("/system.slice/system-getty.slice/getty@tty1.service".into(), "/system.slice/system-getty.slice/getty@{I}.service"),
            ("/user.slice/user-1000.slice/session-c2.scope".into(), "/user.slice/user-1000.slice/session-{N}.scope"),
            ("/user.slice/user-1000.slice/user@1000.service/app.slice".into(), "/user.slice/user-1000.slice/user@{I}.service/app.slice"),
            ("/system.slice/run-r0123456789abcdef0123456789abcdef.scope".into(), "/system.slice/run-{H}.scope"),
            ("/system.slice/run-u12.service".into(), "/system.slice/run-{N}.service"),
            ("/system.slice/run-p311-i312.scope".into(), "/system.slice/run-{N}.scope"),
            (format!("/system.slice/docker-{id}.scope"), "/system.slice/docker-{H}.scope"),
            (format!("/docker/{id}"), "/docker/{H}"),
            (format!("/machine.slice/machine-libpod_pod_{id}.slice"), "/machine.slice/machine-libpod_pod_{H}.slice"),
            (format!("/kubepods.slice/cri-containerd-{id}.scope"), "/kubepods.slice/cri-containerd-{H}.scope"),
            (format!("/machine.slice/libpod-{id}.scope/container"), "/machine.slice/libpod-{H}.scope/container"),
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0f3c9e2a_5b1d_4c7e_9a8f_1234567890ab.slice".into(),
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{U}.slice",
            ),
            ("/kubepods/burstable/pod0f3c9e2a-5b1d-4c7e-9a8f-1234567890ab".into(), "/kubepods/burstable/pod{U}"),
            (
                "/user.slice/snap.firefox.firefox-0f3c9e2a-5b1d-4c7e-9a8f-1234567890ab.scope".into(),
                "/user.slice/snap.firefox.firefox-{U}.scope",
            ),
            (format!("/kubepods.slice/crio-{id}.scope"), "/kubepods.slice/crio-{H}.scope"),
            (format!("/system.slice/containerd.service/kubepods:cri-containerd:{id}"), "/system.slice/containerd.service/kubepods:cri-containerd:{H}"),
            ("/kubepods/besteffort/podracer".into(), "/kubepods/besteffort/podracer"),
            ("/session-x.scope/run-up.service".into(), "/session-x.scope/run-up.service"),
        ] {
            assert_eq!(cgroup_pattern(&path), pattern);
        }
    }

    #[test]
    fn a_pattern_is_its_own_pattern() {
        let path = "/system.slice/getty@tty1.service/session-3.scope/run-u1.service";
        let pattern = cgroup_pattern(path);
        assert_eq!(cgroup_pattern(&pattern), pattern);
    }
}

//! Cgroup normalisation: of each segment of a path, instance ids go and names stay.

/// The pattern of a cgroup path.
///
/// ```
/// use ctprof::names::cgroup_pattern;
/// assert_eq!(cgroup_pattern("/user.slice/user-1000.slice/session-3.scope"), "/user.slice/user-1000.slice/session-{N}.scope");
/// assert_eq!(cgroup_pattern("/system.slice/getty@tty1.service"), "/system.slice/getty@{I}.service");
/// ```
#[must_use]
pub fn cgroup_pattern(path: &str) -> String {
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

fn segment(segment: &str) -> String {
    let (stem, suffix) = match segment.rsplit_once('.') {
        Some((stem, unit @ ("service" | "scope" | "slice" | "socket" | "mount"))) => (stem, format!(".{unit}")),
        _ => (segment, String::new()),
    };
    let placed = instance(stem)
        .or_else(|| numbered(stem))
        .or_else(|| pod(stem))
        .or_else(|| container(stem))
        .or_else(|| uuid(stem));
    placed.map_or_else(|| segment.to_owned(), |pattern| format!("{pattern}{suffix}"))
}

/// systemd's `name@instance`.
fn instance(stem: &str) -> Option<String> {
    let (name, instance) = stem.split_once('@')?;
    (!instance.is_empty()).then(|| format!("{name}@{{I}}"))
}

/// Login sessions `session-3`, `session-c2`, and transient units `run-u12`, `run-r<hex>`.
fn numbered(stem: &str) -> Option<String> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if let Some(id) = stem.strip_prefix("session-") {
        return digits(id.strip_prefix('c').unwrap_or(id)).then(|| "session-{N}".to_owned());
    }
    let id = stem.strip_prefix("run-")?;
    let random = id.strip_prefix('r').is_some_and(is_id);
    let counted = id
        .strip_prefix(['u', 'p'])
        .is_some_and(|rest| rest.split('-').all(|part| digits(part.trim_start_matches('i'))));
    random.then(|| "run-{H}".to_owned()).or_else(|| counted.then(|| "run-{N}".to_owned()))
}

/// Kubernetes' `pod<uid>`, alone or at the end of a slice's name; the uid has `-` or `_`.
fn pod(stem: &str) -> Option<String> {
    let at = stem.rfind("pod").filter(|&at| at == 0 || stem[..at].ends_with('-'))?;
    let uid = &stem[at + 3..];
    let groups = |by| uid.split(by).map(str::len).eq([8, 4, 4, 4, 12]);
    // A static pod has a hash for an id.
    let is_uid = (groups('-') || groups('_')) && uid.bytes().all(|b| b.is_ascii_hexdigit() || b"-_".contains(&b));
    (is_uid || is_id(uid)).then(|| format!("{}pod{{U}}", &stem[..at]))
}

/// A container's id, alone or after the runtime's name: `docker-<id>`, `cri-containerd-<id>`.
fn container(stem: &str) -> Option<String> {
    let (runtime, id) = stem.split_at_checked(stem.len().checked_sub(64)?)?;
    let apart = runtime.is_empty() || runtime.ends_with(['-', ':']);
    (apart && is_id(id)).then(|| format!("{runtime}{{H}}"))
}

/// A UUID at the end, as snap gives to every start of a program.
fn uuid(stem: &str) -> Option<String> {
    let (name, uuid) = stem.split_at_checked(stem.len().checked_sub(36)?)?;
    let groups = uuid.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    let hex = uuid.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit());
    (groups && hex && (name.is_empty() || name.ends_with('-'))).then(|| format!("{name}{{U}}"))
}

/// A random id in hexadecimal digits.
fn is_id(text: &str) -> bool {
    text.len() >= 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
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

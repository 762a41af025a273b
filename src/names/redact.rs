//! Names made unreadable, the same name always into the same, so that comparisons still work.

use std::collections::HashMap;
use std::mem;

use crate::model::{CtprofSnapshot, HostContext, Name};

/// What the key of the hash is for, so that nobody else's hash of the same name is the same.
const CONTEXT: &str = "ctprof 2026-11-21 names of snapshots";
/// Letters of a word's hash: none is a hexadecimal digit, so that no word looks like an id.
const LETTERS: &[u8; 16] = b"ghijklmnopqrstuv";
/// How many of them: two words in four thousand million have the same.
const LETTERS_OF_A_WORD: usize = 8;
/// Longer runs of digits are no instance numbers.
const LONGEST_NUMBER: usize = 6;
/// So many hexadecimal digits are an id, whatever stands before them.
const SHORTEST_ID: usize = 16;
/// Words of cgroup paths that systemd and container runtimes put there: the shape of the path.
const SHAPE: [&str; 26] = [
    "app",
    "besteffort",
    "burstable",
    "container",
    "containerd",
    "cri",
    "crio",
    "docker",
    "guaranteed",
    "init",
    "kubepods",
    "libpod",
    "lxc",
    "machine",
    "mount",
    "payload",
    "pod",
    "run",
    "scope",
    "service",
    "session",
    "slice",
    "snap",
    "socket",
    "system",
    "user",
];

impl CtprofSnapshot {
    /// Replaces the names of processes, threads, cgroups and the host by hashes under `key`. Equal
    /// names stay equal, in all snapshots with the same key; instance numbers stay, so that pools
    /// are still found. Without a secret key, a name can be found by trying. Kernel threads keep
    /// theirs.
    pub fn redact(&mut self, key: &str) {
        let hash = Hash { key: blake3::derive_key(CONTEXT, key.as_bytes()) };
        let mut known: HashMap<(Name, bool), Name> = HashMap::new();
        let mut name = |name: &mut Name, is_path: bool| {
            let hashed = known.entry((Name::clone(name), is_path));
            *name = Name::clone(hashed.or_insert_with(|| hash.name(name, if is_path { &SHAPE } else { &[] }).into()));
        };
        for thread in &mut self.threads {
            if !thread.kernel_thread {
                name(&mut thread.pcomm, false);
                name(&mut thread.comm, false);
            }
            thread.cgroup.iter_mut().for_each(|path| name(path, true));
        }
        let stats = mem::take(&mut self.cgroup_stats);
        self.cgroup_stats = stats.into_iter().map(|(path, stats)| (hash.name(&path, &SHAPE), stats)).collect();
        let unread = self.parse_summary.iter_mut().flat_map(|summary| summary.unread_names.values_mut());
        unread.flatten().for_each(|name| *name = hash.name(name, &[]));
        self.host.iter_mut().for_each(|host| hash.host(host));
        if let Some(capture) = &mut self.capture {
            let options = &mut capture.options;
            options.redacted = true;
            for path in [&mut options.procfs, &mut options.sysfs, &mut options.cgroupfs].into_iter().flatten() {
                *path = hash.name(path, &[]);
            }
        }
    }
}

/// A hash that is as hard to turn round as its key is to guess.
struct Hash {
    key: [u8; blake3::KEY_LEN],
}

impl Hash {
    fn host(&self, host: &mut HostContext) {
        for name in [&mut host.hostname, &mut host.boot_id].into_iter().flatten() {
            *name = self.name(name, &[]);
        }
        if let Some(line) = &mut host.kernel_cmdline {
            let words = line.split(' ').map(|word| match word.split_once('=') {
                Some((option, _)) if option != "psi" => format!("{option}=…"),
                _ => word.to_owned(),
            });
            *line = words.collect::<Vec<_>>().join(" ");
        }
    }

    /// The name with its words and ids replaced, but for the words in `kept`; what stands between
    /// them stays.
    fn name(&self, name: &str, kept: &[&str]) -> String {
        let mut redacted = String::with_capacity(name.len());
        let mut rest = name;
        while let Some(first) = rest.chars().next() {
            let (token, after) = if is_uuid(rest) {
                rest.split_at(UUID)
            } else if first.is_alphanumeric() {
                rest.split_at(rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len()))
            } else {
                redacted.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            };
            self.push_token(&mut redacted, token, kept);
            rest = after;
        }
        redacted
    }

    fn push_token(&self, redacted: &mut String, token: &str, kept: &[&str]) {
        if kept.contains(&token) {
            redacted.push_str(token);
        } else if is_uuid(token) || is_hex(token) {
            self.push_id(redacted, token);
        } else if let Some(at) = id_at_the_end(token) {
            self.push_token(redacted, &token[..at], kept);
            self.push_id(redacted, &token[at..]);
        } else {
            let alike = |a: char, b: char| a.is_ascii_digit() == b.is_ascii_digit();
            let mut rest = token;
            while let Some(first) = rest.chars().next() {
                let (run, after) = rest.split_at(rest.find(|c| !alike(first, c)).unwrap_or(rest.len()));
                self.push_run(redacted, run, kept);
                rest = after;
            }
        }
    }

    /// A run of digits or of letters.
    fn push_run(&self, redacted: &mut String, run: &str, kept: &[&str]) {
        let digits = run.as_bytes()[0].is_ascii_digit();
        if kept.contains(&run) || (digits && run.len() <= LONGEST_NUMBER) || run.chars().count() == 1 {
            redacted.push_str(run);
        } else if digits {
            self.push_id(redacted, run);
        } else {
            let hash = blake3::keyed_hash(&self.key, run.as_bytes());
            let letters = hash.as_bytes().iter().take(LETTERS_OF_A_WORD).map(|byte| LETTERS[usize::from(byte % 16)]);
            redacted.extend(letters.map(char::from));
        }
    }

    /// An id, or a long number, by one of the same form.
    fn push_id(&self, redacted: &mut String, id: &str) {
        let mut bytes = blake3::Hasher::new_keyed(&self.key).update(id.as_bytes()).finalize_xof();
        let decimal = id.bytes().all(|b| b.is_ascii_digit());
        for (at, old) in id.chars().enumerate() {
            let mut byte = [0];
            bytes.fill(&mut byte);
            let radix = if decimal || at == 0 { 10 } else { 16 };
            let digit = char::from_digit(u32::from(byte[0]) % radix, radix).expect("a digit below the radix");
            let upper = id.bytes().any(|b| b.is_ascii_uppercase());
            redacted.push(if !old.is_ascii_alphanumeric() {
                old
            } else if upper {
                digit.to_ascii_uppercase()
            } else {
                digit
            });
        }
    }
}

const UUID: usize = 36;

/// Whether a text begins with a UUID, its groups parted by `-` or `_`.
fn is_uuid(text: &str) -> bool {
    let Some((uuid, after)) = text.split_at_checked(UUID) else { return false };
    let groups = |by| uuid.split(by).map(str::len).eq([8, 4, 4, 4, 12]);
    let hex = uuid.bytes().all(|b| b.is_ascii_hexdigit() || b"-_".contains(&b));
    hex && (groups('-') || groups('_')) && !after.starts_with(char::is_alphanumeric)
}

/// Whether a token is an id in hexadecimal digits of one case: `cafe` and `face` are words.
fn is_hex(token: &str) -> bool {
    let lower = token.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let upper = token.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'));
    let digit = |b: u8| b.is_ascii_digit();
    token.len() >= 4 && (lower || upper) && token.bytes().any(digit) && !token.bytes().all(digit)
}

/// Where a long id begins that a token ends with.
fn id_at_the_end(token: &str) -> Option<usize> {
    let digits = token.bytes().rev().take_while(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')).count();
    (SHORTEST_ID..token.len()).contains(&digits).then_some(token.len() - digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CtprofParseSummary, ThreadState};

    fn path(path: &str) -> String {
        Hash { key: blake3::derive_key(CONTEXT, b"secret") }.name(path, &SHAPE)
    }

    #[test]
    fn words_go_and_the_shape_of_a_path_stays() {
        let id = "0123456789abcdef".repeat(4);
        let docker = path(&format!("/system.slice/docker-{id}.scope"));
        assert!(docker.starts_with("/system.slice/docker-") && docker.ends_with(".scope"), "{docker}");
        assert_eq!(docker.len(), "/system.slice/docker-.scope".len() + 64);
        assert!(!docker.contains(&id));
        let user = path("/user.slice/user-1000.slice/session-c2.scope");
        assert_eq!(user, "/user.slice/user-1000.slice/session-c2.scope");
        let service = path("/system.slice/postgres.service");
        assert!(!service.contains("postgres") && service.len() == "/system.slice/.service".len() + 8, "{service}");
        let pod = path("/kubepods/pod0f3c9e2a-5b1d-4c7e-face-1234567890ab");
        assert!(pod.starts_with("/kubepods/pod") && !pod.contains("5b1d") && !pod.contains("face"), "{pod}");
    }

    #[test]
    fn names_that_differ_in_instance_numbers_still_do_and_in_nothing_else() {
        let names = ["worker-1", "worker-2", "GC Thread#3", "größe7"].map(path);
        assert_eq!(names[0].strip_suffix("-1"), names[1].strip_suffix("-2"));
        assert!(names[2].ends_with("#3") && !names[2].contains("Thread"));
        assert!(names[3].ends_with('7') && names[3].is_ascii());
        assert_ne!(path("reader"), path("writer"));
        assert_eq!(path("a1b2c3d4").len(), 8);
    }

    #[test]
    fn the_same_key_gives_the_same_names_and_another_key_others() {
        let redacted = |key: &str| {
            let thread = ThreadState { pcomm: "redis-server".into(), comm: "bio_aof".into(), ..ThreadState::default() };
            let kernel = ThreadState { comm: "ksoftirqd/0".into(), kernel_thread: true, ..ThreadState::default() };
            let host = HostContext {
                hostname: Some("db1.example.org".into()),
                kernel_cmdline: Some("quiet root=UUID=77 psi=1 delayacct".into()),
                ..HostContext::default()
            };
            let unread = ("io".into(), vec!["postgres".to_owned()]);
            let summary = CtprofParseSummary { unread_names: [unread].into(), ..CtprofParseSummary::default() };
            let mut snapshot = CtprofSnapshot {
                threads: vec![thread, kernel],
                host: Some(host),
                parse_summary: Some(summary),
                ..CtprofSnapshot::default()
            };
            snapshot.redact(key);
            snapshot
        };
        let (a, b) = (redacted("k"), redacted("l"));
        assert_eq!(a, redacted("k"));
        assert_ne!(a.threads[0].comm, b.threads[0].comm);
        assert_eq!(&*a.threads[1].comm, "ksoftirqd/0");
        let text = serde_json::to_string(&a).unwrap();
        for secret in ["redis", "aof", "postgres", "db1", "example", "77"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        assert_eq!(a.host.unwrap().kernel_cmdline.unwrap(), "quiet root=… psi=1 delayacct");
    }
}

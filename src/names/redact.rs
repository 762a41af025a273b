//! Redaction: replaces names by hashes, equal names by equal hashes, so that snapshots stay comparable.

use std::collections::{HashMap, HashSet};
use std::mem;

use super::cgroup::{Id, Segment};
use super::container::split_pod;
use super::hash::Hash;
use super::token::{HexId, TokenForm, chunks, is_hex_of_one_case, tokens};
use crate::model::{Container, CtprofSnapshot, HOME_OF_USER, HostContext, Name, Reason, Reasons};

/// Words of systemd and container runtimes in cgroup paths. They are not private, and patterns depend on some.
const OF_PATHS: &str = "app besteffort burstable container containerd cri crio docker guaranteed init kubepods libpod lxc \
     machine mount payload pod run scope service session slice snap socket system user";
/// Words of thread names that patterns depend on.
const OF_TASKS: &str = "kworker";
/// Words of the usual mount points of the kernel's file systems.
const OF_MOUNTS: &str = "cgroup fs proc sys unified";
/// Words for what has no path, and the usual places of the kernel's files.
const OF_OBJECTS: &str = "anon_inode dev eventfd eventpoll inotify memfd null pidfd pipe proc ptmx pts random signalfd socket sys \
     timerfd tty urandom zero";

/// Words in the names of runtimes and of libraries that all programs use: reports pass over their functions.
/// And those that say why a function has no name.
const OF_CODE: &str = "alloc api core crossbeam frames futures gcc gnu internal ld libc libgcc libjvm libpthread libpython libstdc \
     linux lock lot mio no node parking python rayon runtime so start std stripped syscall tables tokio unwind uv without";

impl CtprofSnapshot {
    /// Replaces the names of processes, threads, cgroups and the host by hashes under `key`. Equal
    /// names stay equal, in all snapshots with the same key, and names that share a pattern still
    /// do. Without a secret key, a name can be confirmed by hashing it. Kernel threads keep their
    /// names, except among the processes that could not be read. The command of a window and user ids are removed.
    pub fn redact(&mut self, key: &str) {
        let hash = Hash::new(key);
        let (mut tasks, mut cgroups) = (HashMap::new(), HashMap::new());
        let kernel_threads = self.threads.iter().filter(|thread| thread.kernel_thread);
        let kernel_threads: HashSet<Name> = kernel_threads.map(|thread| Name::clone(&thread.comm)).collect();
        for thread in &mut self.threads {
            thread.euid = None;
            if !thread.kernel_thread {
                let names = [&mut thread.program, &mut thread.parent].into_iter().flatten();
                let names = names.chain([&mut thread.pcomm, &mut thread.comm]);
                names.for_each(|name| replace(name, &mut tasks, |name| hash.task(name)));
            }
            let paths = [&mut thread.cgroup, &mut thread.cpu_cgroup].into_iter().flatten();
            paths.for_each(|path| replace(path, &mut cgroups, |path| hash.cgroup(path)));
        }
        let head = &mut self.head;
        head.reasons.iter_mut().for_each(|reasons| hash.redact_reasons(reasons, &kernel_threads));
        let stats = mem::take(&mut head.cgroup_stats);
        head.cgroup_stats = stats.into_iter().map(|(path, stats)| (hash.cgroup(&path), stats)).collect();
        let containers = mem::take(&mut head.containers);
        let redacted = |(path, container): (String, _)| (hash.cgroup(&path), hash.container(container));
        head.containers = containers.into_iter().map(redacted).collect();
        head.host.iter_mut().for_each(|host| hash.redact_host(host));
        for names in head.parse_summary.iter_mut().flat_map(|summary| summary.unread_names.values_mut()) {
            names.iter_mut().for_each(|name| *name = hash.task(name));
            names.sort();
        }
        for names in head.containers_unread.values_mut() {
            let redacted = |name: String| if name.starts_with(HOME_OF_USER) { HOME_OF_USER.to_owned() } else { name };
            *names = mem::take(names).into_iter().map(redacted).collect();
        }
        head.series.iter_mut().for_each(|series| series.command.clear());
        if let Some(command) = head.window.as_mut().and_then(|window| window.command.as_mut()) {
            command.arguments.clear();
        }
        if let Some(capture) = &mut head.capture {
            let options = &mut capture.options;
            options.redacted = true;
            for path in [&mut options.procfs, &mut options.sysfs, &mut options.cgroupfs].into_iter().flatten() {
                *path = hash.name(path, OF_MOUNTS);
            }
        }
    }
}

/// Redacts a name, or takes it from those redacted so far: many threads share a name.
fn replace(name: &mut Name, redacted_names: &mut HashMap<Name, Name>, redact: impl FnOnce(&str) -> String) {
    let redacted = redacted_names.entry(Name::clone(name)).or_insert_with(|| redact(name).into());
    *name = Name::clone(redacted);
}

impl Hash {
    /// The name of a thread or a process, redacted.
    pub(super) fn task(&self, name: &str) -> String {
        self.name(name, OF_TASKS)
    }

    /// The path of a cgroup, redacted.
    pub(super) fn cgroup(&self, path: &str) -> String {
        let segments = path.split('/').map(|text| {
            let Segment { name, id, unit } = Segment::parse(text);
            let id = id.map(|(id, text)| match id {
                Id::Instance => self.name(text, OF_PATHS),
                Id::Number => self.name(text, ""),
                Id::Hex if text.starts_with('r') => format!("r{}", self.long_id(&text[1..])),
                Id::Hex | Id::Uuid => self.long_id(text),
            });
            self.name(name, OF_PATHS) + &id.unwrap_or_default() + unit
        });
        segments.collect::<Vec<_>>().join("/")
    }

    /// Functions of the kernel and system calls are no names of the host.
    fn redact_reasons(&self, reasons: &mut Reasons, kernel_threads: &HashSet<Name>) {
        let task = |name: &mut Name| {
            if !kernel_threads.contains(name) {
                *name = self.task(name).into();
            }
        };
        let cgroup = |path: &mut Option<Name>| path.iter_mut().for_each(|path| *path = self.cgroup(path).into());
        for threads in &mut reasons.threads {
            [&mut threads.pcomm, &mut threads.comm].into_iter().chain(&mut threads.program).for_each(task);
            cgroup(&mut threads.cgroup);
        }
        for Reason { object, by, stack, held_in, .. } in &mut reasons.reasons {
            object.iter_mut().for_each(|object| *object = self.name(object, OF_OBJECTS).into());
            [stack, held_in].into_iter().flatten().for_each(|stack| *stack = self.name(stack, OF_CODE).into());
            if let Some(other) = by {
                [&mut other.pcomm, &mut other.comm].into_iter().chain(&mut other.program).for_each(task);
                cgroup(&mut other.cgroup);
            }
        }
    }

    /// A container, redacted but for its runtime.
    fn container(&self, container: Container) -> Container {
        let [name, namespace, image] =
            [container.name, container.namespace, container.image].map(|name| name.map(|name| self.name(&name, "")));
        let pod = container.pod.map(|pod| {
            let (workload, instance) = split_pod(&pod);
            self.name(workload, "") + instance
        });
        let [id, pod_uid] = [container.id, container.pod_uid].map(|id| id.map(|id| self.long_id(&id)));
        Container { runtime: container.runtime, id, name, pod, namespace, pod_uid, image }
    }

    fn redact_host(&self, host: &mut HostContext) {
        if let Some(name) = &mut host.hostname {
            *name = self.word(name);
        }
        if let Some(id) = &mut host.boot_id {
            *id = self.long_id(id);
        }
        if let Some(path) = &mut host.cgroup_mount {
            *path = self.name(path, OF_MOUNTS);
        }
        if let Some(line) = &mut host.kernel_cmdline {
            // Blanks in quotes belong to a value (`next_arg` of the kernel's `lib/cmdline.c`).
            let mut is_quoted = false;
            let parameters = line.split(|c| {
                is_quoted ^= c == '"';
                c == ' ' && !is_quoted
            });
            // Whatever follows `--` is for the init process.
            let of_kernel = parameters.take_while(|word| *word != "--");
            let words = of_kernel.map(|word| match word.split_once('=') {
                Some((option, _)) if option != "psi" => format!("{option}=…"),
                _ => word.to_owned(),
            });
            *line = words.collect::<Vec<_>>().join(" ");
        }
    }

    /// A name with its words and ids replaced, except the words in `kept`. Each token keeps its
    /// form, so that the name has the pattern of the same names as before.
    fn name(&self, name: &str, kept: &str) -> String {
        let mut redacted = String::with_capacity(2 * name.len());
        for token in tokens(name) {
            match (token.form, token.hex_id()) {
                (TokenForm::Separator, _) => redacted.push_str(token.text),
                (TokenForm::Uuid, _) | (_, Some(HexId::Long)) => redacted.push_str(&self.long_id(token.text)),
                (_, Some(HexId::Short)) => redacted.push_str(&self.short_id(token.text)),
                _ => redacted.extend(chunks(token.text).map(|(chunk, form)| self.chunk(chunk, form, kept))),
            }
        }
        redacted
    }

    fn chunk(&self, chunk: &str, form: TokenForm, kept: &str) -> String {
        match form {
            TokenForm::Separator | TokenForm::Uuid => chunk.to_owned(),
            TokenForm::Digits => self.number(chunk),
            TokenForm::LettersDigits(at) => self.letters(&chunk[..at], kept) + &self.number(&chunk[at..]),
            TokenForm::DigitsLetters(at) => self.number(&chunk[..at]) + &self.letters(&chunk[at..], kept),
            TokenForm::Other if is_kept(chunk, kept) => chunk.to_owned(),
            TokenForm::Other => self.word(chunk),
        }
    }

    /// Letters next to a number. With a longer number they may be a short id, such as `ab01`, so they need
    /// the same replacement in `ab1`.
    fn letters(&self, letters: &str, kept: &str) -> String {
        if is_kept(letters, kept) {
            letters.to_owned()
        } else if is_hex_of_one_case(letters) {
            self.short_id(letters)
        } else {
            self.word(letters)
        }
    }
}

/// Whether a word stays as it is: one of `kept`, or a single character.
fn is_kept(word: &str, kept: &str) -> bool {
    word.chars().nth(1).is_none() || kept.split(' ').any(|other| other == word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CtprofParseSummary, OtherThread, SampledThreads, SnapshotHead, ThreadState};

    #[test]
    fn a_redacted_name_is_not_mistaken_for_one_cut_by_the_kernel() {
        let hash = Hash::new("k");
        for name in ["worker-9", "w-1", "bash", "a1b2-c3d4", "fifteen-bytes-x", "redis:12"] {
            let redacted = hash.task(name);
            assert!(redacted.len() > 15 || redacted.len() == name.len(), "{redacted}");
        }
    }

    fn path(path: &str) -> String {
        Hash::new("secret").cgroup(path)
    }

    #[test]
    fn words_are_replaced_and_the_structure_of_a_path_stays() {
        let id = "0123456789abcdef".repeat(4);
        let docker = path(&format!("/system.slice/docker-{id}.scope"));
        assert!(docker.starts_with("/system.slice/docker-") && docker.ends_with(".scope"), "{docker}");
        assert_eq!(docker.len(), "/system.slice/docker-.scope".len() + 64);
        assert!(!docker.contains(&id));
        let user = path("/user.slice/user-1000.slice/session-c2.scope");
        assert_eq!(user, "/user.slice/user-1000.slice/session-c2.scope");
        let service = path("/system.slice/postgres.service");
        assert!(!service.contains("postgres") && service.len() == "/system.slice/.service".len() + 16, "{service}");
        let pod = path("/kubepods/pod0f3c9e2a-5b1d-4c7e-face-1234567890ab");
        assert!(pod.starts_with("/kubepods/pod") && !pod.contains("5b1d") && !pod.contains("face"), "{pod}");
    }

    #[test]
    fn names_that_differ_only_in_instance_numbers_still_do() {
        let names = ["worker-1", "worker-2", "GC Thread#3", "größe7"].map(path);
        assert_eq!(names[0].strip_suffix("-1"), names[1].strip_suffix("-2"));
        assert!(names[2].ends_with("#3") && !names[2].contains("Thread"));
        assert!(names[3].ends_with('7') && names[3].is_ascii());
        for name in ["น้ำ", "ป้า-1", "ท์ว์", "क्ष", "z\u{301}a\u{301}c\u{301}", "x\u{301}yz\u{301}", "n’importe…"]
        {
            assert!(path(name).is_ascii(), "{name}: {}", path(name));
        }
        assert_ne!(path("reader"), path("writer"));
        assert_eq!(path("a1b2c3d4").len(), 8);
    }

    #[test]
    fn the_same_key_gives_the_same_names_and_another_key_others() {
        let redacted = |key: &str| {
            let thread = ThreadState {
                pcomm: "redis-server".into(),
                comm: "bio_aof".into(),
                program: Some("postgres.py".into()),
                parent: Some("redis-parent".into()),
                ..ThreadState::default()
            };
            let kernel = ThreadState { comm: "ksoftirqd/0".into(), kernel_thread: true, ..ThreadState::default() };
            let host = HostContext {
                hostname: Some("db1.example.org".into()),
                cgroup_mount: Some("/sys/fs/cgroup/aof".into()),
                kernel_cmdline: Some(r#"quiet root=UUID=77 psi=1 systemd.setenv="A=b c d" delayacct"#.into()),
                ..HostContext::default()
            };
            let mut summary = CtprofParseSummary::default();
            summary.unread_names.insert("io".into(), vec!["redis-aof".into(), "redis-server".into()]);
            let names = || SampledThreads {
                pcomm: "redis-server".into(),
                comm: "bio_aof".into(),
                program: Some("postgres.py".into()),
                cgroup: Some("/system.slice/redis.service".into()),
                ..SampledThreads::default()
            };
            let SampledThreads { pcomm, comm, program, cgroup, .. } = names();
            let reason = Reason {
                entry: Some("fdatasync".into()),
                object: Some("/var/lib/postgres/wal".into()),
                by: Some(OtherThread { pcomm, comm, program, cgroup }),
                stack: Some("libc.so.6:poll;redis-server:std::thread::park;redis-server:aof::flush;redis-server:?no unwind tables".into()),
                held_in: Some("redis-server:postgres".into()),
                ..Reason::default()
            };
            let of_kernel = SampledThreads { comm: "ksoftirqd/0".into(), ..SampledThreads::default() };
            let reasons = Reasons { threads: vec![names(), of_kernel], reasons: vec![reason], ..Reasons::default() };
            let mut snapshot = CtprofSnapshot {
                head: SnapshotHead {
                    reasons: Some(Box::new(reasons)),
                    host: Some(host),
                    parse_summary: Some(summary),
                    ..SnapshotHead::default()
                },
                threads: vec![thread, kernel],
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
        let reasons = a.head.reasons.unwrap();
        let stack = reasons.reasons[0].stack.as_deref().unwrap();
        assert!(
            stack.starts_with("libc.so.6:") && stack.contains(":std::") && stack.ends_with(":?no unwind tables"),
            "{stack}"
        );
        assert_eq!(reasons.threads[0].comm, a.threads[0].comm);
        assert_eq!(&*reasons.threads[1].comm, "ksoftirqd/0");
        assert_eq!(reasons.reasons[0].entry.as_deref(), Some("fdatasync"));
        assert_eq!(a.head.host.unwrap().kernel_cmdline.unwrap(), "quiet root=… psi=1 systemd.setenv=… delayacct");
    }
}

//! Names of containers: from trees as their runtimes write them, with hostile files in them, to groups.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use ctprof::capture::{Options, capture_with};
use ctprof::diagnose::{DataSource, findings};
use ctprof::model::{CgroupStats, Container, CtprofSnapshot, Errno};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};

/// A host with one thread in each of these cgroups, and with these files.
fn host(cgroups: &[String], files: &[(String, String)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for (pid, cgroup) in (10..).zip(cgroups) {
        let task = format!("proc/{pid}/task/{pid}");
        // Fields from 3 on, as of Linux 6.12.
        write(&format!("{task}/stat"), &format!("{pid} (app) S 1{} 0\n", " 7".repeat(47)));
        write(&format!("{task}/cgroup"), &format!("0::{cgroup}\n"));
    }
    files.iter().for_each(|(path, text)| write(path, text));
    root
}

fn captured(root: &Path) -> CtprofSnapshot {
    let mut options = Options::default();
    options.roots.procfs = root.join("proc");
    options.roots.sysfs = root.join("sys");
    capture_with(&options).unwrap()
}

fn containers(root: &Path) -> BTreeMap<String, Container> {
    captured(root).head.containers
}

fn id(byte: u8) -> String {
    format!("{byte:02x}").repeat(31) + "a1"
}

const DOCKER: &str = "/var/lib/docker/containers";
const POD: &str = "0f3c9e2a-5b1d-4c7e-9a8f-1234567890ab";

/// A path and the JSON in it.
fn file(path: String, json: &Value) -> (String, String) {
    (path, json.to_string())
}

fn fields(container: &Container) -> [&str; 5] {
    let Container { runtime, name, pod, namespace, image, .. } = container;
    [runtime, name, pod, namespace, image].map(|fact| fact.as_deref().unwrap_or_default())
}

#[test]
fn containers_have_the_names_that_their_runtimes_gave_them() {
    let pod = format!("/kubepods.slice/kubepods-pod{}.slice", POD.replace('-', "_"));
    let sandboxed = format!("{pod}/cri-containerd-{}.scope", id(2));
    let (podman, cri_o) = (format!("/machine.slice/libpod-{}.scope", id(5)), format!("{pod}/crio-{}.scope", id(6)));
    let rootless = format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{}.scope", id(7));
    let cgroups = [
        format!("{pod}/cri-containerd-{}.scope", id(1)),
        sandboxed.clone(),
        format!("/docker/{}", id(3)),
        format!("/system.slice/nerdctl-{}.scope", id(4)),
        podman,
        cri_o,
        rootless,
        "/lxc.payload.web/init.scope".to_owned(),
        "/system.slice/ssh.service".to_owned(),
        format!("{pod}/cri-containerd-{}.scope", id(8)),
    ];
    let tasks = "/run/containerd/io.containerd.runtime.v2.task";
    let stored = |id: &str, name: &str| {
        let metadata = json!({"image-name": "example.org/app:1", "name": name}).to_string();
        json!([{"id": id, "names": [name], "image": "0123", "metadata": metadata, "created": "2026-01-01T00:00:00Z"}])
    };
    let storage = "/var/lib/containers/storage/overlay-containers";
    let annotations = |annotations: Value| json!({"ociVersion": "1.1.0", "annotations": annotations});
    let files = [
        (format!("/var/log/containers/api-7d4b9c6f5d-x2k4p_shop_server-{}.log", id(1)), String::new()),
        (format!("/var/log/pods/shop_api-7d4b9c6f5d-x2k4p_{POD}/server/0.log"), String::new()),
        file(
            format!("/var/lib/docker/containers/{}/config.v2.json", id(3)),
            &json!({"Name": "/cache", "Config": {"Image": "redis:7"}}),
        ),
        file(format!("{tasks}/default/{}/config.json", id(4)), &annotations(json!({"nerdctl/name": "proxy"}))),
        file(
            format!("{tasks}/k8s.io/{}/config.json", id(2)),
            &annotations(json!({
                "io.kubernetes.cri.container-name": "sidecar", "io.kubernetes.cri.sandbox-name": "api-7d4b9c6f5d-x2k4p",
                "io.kubernetes.cri.sandbox-namespace": "shop", "io.kubernetes.cri.image-name": "example.org/side:2"
            })),
        ),
        file(format!("{storage}/containers.json"), &stored(&id(6), &format!("k8s_worker_batch-x2k4p_jobs_{POD}_0"))),
        file(format!("{storage}/volatile-containers.json"), &stored(&id(5), "build")),
    ];
    let root = host(&cgroups, &files);
    let found = containers(root.path());
    let api = "api-7d4b9c6f5d-x2k4p";
    let expected = [
        ["containerd", "server", api, "shop", ""],
        ["containerd", "sidecar", api, "shop", "example.org/side:2"],
        ["docker", "cache", "", "", "redis:7"],
        ["containerd", "proxy", "", "default", ""],
        ["podman", "build", "", "", "example.org/app:1"],
        ["cri-o", "worker", "batch-x2k4p", "jobs", "example.org/app:1"],
        ["podman", "", "", "", ""],
        ["lxc", "web", "", "", ""],
    ];
    for (cgroup, expected) in cgroups.iter().zip(expected) {
        assert_eq!(fields(&found[cgroup]), expected, "{cgroup}");
    }
    assert!(!found.contains_key("/system.slice/ssh.service"));
    assert_eq!(fields(&found[&cgroups[9]]), ["containerd", "", api, "shop", ""], "a pod's sandbox");
}

#[test]
fn a_user_names_own_containers_only_and_by_own_files() {
    let own = nix::unistd::getuid().as_raw();
    let of = |user: u32| format!("/user.slice/user-{user}.slice/user@{user}.service/user.slice/libpod-{}.scope", id(1));
    let list = json!([{"id": id(1), "names": ["mine"], "metadata": ""}]);
    let storage = "home/.local/share/containers/storage/overlay-containers/containers.json";
    let users = (own, own + 1);
    let passwd = format!("me:x:{}:1::/home:/bin/sh\nother:x:{}:1::/home:/bin/sh\n", users.0, users.1);
    let files = [file(storage.to_owned(), &list), ("etc/passwd".to_owned(), passwd)];
    let name = |user: u32| {
        let root = host(&[of(user)], &files);
        containers(root.path()).into_values().next().unwrap().name
    };
    assert_eq!((name(users.0).as_deref(), name(users.1)), (Some("mine"), None));
    // A list with the container of another owner, and one that is too long.
    let others = json!([{"id": id(1), "names": ["mine"]}, {"id": id(2), "names": ["forged"]}]);
    let of_docker = format!("/system.slice/docker-{}.scope", id(2));
    let root = host(&[of(own), of_docker.clone()], &[file(storage.to_owned(), &others), files[1].clone()]);
    let found = containers(root.path());
    assert_eq!((found[&of(own)].name.as_deref(), found[&of_docker].name.as_deref()), (Some("mine"), None));
    // The container of another user with the same id, and one with that id in a container of the host.
    let inside = format!("/docker/{}{}", id(2), of(own));
    let root = host(&[of(own), of(own + 1), inside.clone()], &files);
    let found = containers(root.path());
    let names = [of(own), of(own + 1), inside].map(|cgroup| found[&cgroup].name.as_deref());
    assert_eq!(names, [Some("mine"), None, None]);
    let long = (storage.to_owned(), format!("{list}{}", " ".repeat(1 << 20)));
    let root = host(&[of(own)], &[long, files[1].clone()]);
    assert_eq!(containers(root.path()).into_values().next().unwrap().name, None);
}

#[test]
fn files_of_containers_are_bounded_and_links_are_not_followed() {
    let cgroups: Vec<_> = (1..=6).map(|byte| format!("/docker/{}", id(byte))).collect();
    let path = |byte: u8| format!("var/lib/docker/containers/{}/config.v2.json", id(byte));
    let named = |name: &str| json!({"Name": name}).to_string();
    let huge = format!("{}{}", named("huge"), " ".repeat(2 << 20));
    let files = [
        ("secret.json".to_owned(), named("secret")),
        (path(3), huge),
        (path(4), named(&"long".repeat(1000))),
        (path(5), named("\u{1b}[31m\n\u{202e}evil")),
        (path(6), "[".repeat(100_000)),
    ];
    let root = host(&cgroups, &files);
    for byte in [1, 2] {
        fs::create_dir_all(root.path().join(path(byte)).parent().unwrap()).unwrap();
    }
    mkfifo(&root.path().join(path(1)), Mode::S_IRWXU).unwrap();
    symlink(root.path().join("secret.json"), root.path().join(path(2))).unwrap();
    let begin = Instant::now();
    let found = containers(root.path());
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let names: Vec<_> = cgroups.iter().map(|cgroup| found[cgroup].name.as_deref()).collect();
    assert_eq!(names, [None, None, None, None, Some("\u{1b}[31m\n\u{202e}evil"), None]);
    // A name that is too long is left out, and no failure.
    let errors = [Errno::EINVAL, Errno::EFBIG, Errno::ELOOP, Errno::EBADMSG];
    let unread: BTreeMap<_, _> = errors.map(|errno| (errno, [DOCKER.to_owned()].into())).into();
    let snapshot = captured(root.path());
    assert_eq!(snapshot.head.containers_unread, unread);
    let findings = findings(&snapshot).into_iter().filter(|finding| finding.source == DataSource::Containers);
    let (texts, codes): (Vec<_>, BTreeSet<_>) = findings.map(|finding| (finding.to_string(), finding.code())).unzip();
    assert_eq!(codes, [Some("unexpected-file")].into());
    assert!(
        texts[0].starts_with("containers: no names for 5 of 6 containers (/var/lib/docker/containers): "),
        "{texts:?}"
    );
}

/// The findings about names of containers, of a host with one container of Docker.
fn findings_with(files: &[(String, String)]) -> Vec<String> {
    let root = host(&[format!("/docker/{}", id(1))], files);
    let findings = findings(&captured(root.path())).into_iter();
    findings.filter(|finding| finding.source == DataSource::Containers).map(|finding| finding.to_string()).collect()
}

#[test]
fn containers_without_a_name_are_a_finding_with_its_cause() {
    let path = |byte| format!("{DOCKER}/{}/config.v2.json", id(byte));
    let named = json!({"Name": "web"}).to_string();
    assert_eq!(findings_with(&[(path(1), named.clone())]), ["containers: ok"]);
    let [elsewhere] = findings_with(&[]).try_into().unwrap();
    let start = "containers: no names for 1 of 1 container (/var/lib/docker/containers): no such directory (ENOENT)";
    assert!(elsewhere.starts_with(start) && elsewhere.contains(". Fix: "), "{elsewhere}");
    let [not_listed] = findings_with(&[(path(2), named)]).try_into().unwrap();
    assert!(
        not_listed.starts_with("containers: no names for 1 of 1 container: no file of a container runtime"),
        "{not_listed}"
    );
    let none = host(&["/system.slice/ssh.service".to_owned()], &[]);
    assert_eq!(captured(none.path()).head.containers_unread, BTreeMap::new(), "nothing is read without containers");
}

#[test]
fn directories_with_thousands_of_entries_take_no_longer_than_a_capture() {
    let pod = format!("/kubepods/besteffort/pod{POD}/{}", id(1));
    let mut files: Vec<_> = (0..20_000).map(|at| (format!("/var/log/containers/{at}.log"), String::new())).collect();
    files.push((format!("/var/log/containers/api_shop_server-{}.log", id(1)), String::new()));
    let root = host(&[pod], &files);
    let begin = Instant::now();
    let names: Vec<_> = containers(root.path()).into_values().map(|container| container.name).collect();
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_eq!(names, [Some("server".to_owned())]);
}

/// A snapshot with a thread of this run time in seconds in each cgroup, which are these containers.
fn snapshot(containers: &[(&str, Value, u64)]) -> CtprofSnapshot {
    let thread = |(at, (cgroup, _, run)): (usize, &(&str, Value, u64))| {
        json!({"tid": at + 1, "tgid": at + 1, "pcomm": "app", "comm": "app", "cgroup": cgroup,
               "run_time_ns": run * 1_000_000_000})
    };
    let threads: Vec<_> = containers.iter().enumerate().map(thread).collect();
    let named: BTreeMap<_, _> = containers.iter().map(|(path, container, _)| (*path, container)).collect();
    serde_json::from_value(json!({"format_version": 2, "threads": threads, "containers": named})).unwrap()
}

/// The groups of a report, with their run time.
fn groups(snapshot: &CtprofSnapshot, arguments: &[&str]) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    snapshot.write(&file).unwrap();
    let all = [
        &["show", file.to_str().unwrap(), "--format", "json", "--sections", "primary", "--metrics", "run_time_ns"],
        arguments,
    ]
    .concat();
    let report: Value = serde_json::from_str(&crate::stored::program::printed(&all)).unwrap();
    let rows = report["rows"].as_array().unwrap().iter().filter(|row| row["path"] != json!([]));
    rows.map(|row| format!("{} {}", row["group"].as_str().unwrap(), row["value"].as_u64().unwrap() / 1_000_000_000))
        .collect()
}

/// The table of the containers.
fn page(snapshot: &CtprofSnapshot) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    snapshot.write(file.path()).unwrap();
    crate::stored::program::printed(&["show", file.path().to_str().unwrap(), "-g", "container"])
}

#[test]
fn pods_of_one_workload_are_one_row_and_other_containers_are_not() {
    let pod = |pod: &str, name: &str| json!({"pod": pod, "namespace": "shop", "name": name});
    let [one, two, three, four] = [1, 2, 3, 4].map(|byte| format!("/kubepods/pod{POD}/{}", id(byte)));
    let all = snapshot(&[
        (&one, pod("api-7d4b9c6f5d-x2k4p", "server"), 8),
        (&two, pod("api-7d4b9c6f5d-zzzzz", "server"), 4),
        (&three, pod("api-7d4b9c6f5d-zzzzz", "proxy"), 2),
        (&four, json!({"name": "lonely"}), 1),
    ]);
    assert_eq!(groups(&all, &["-g", "container"]), ["shop/api:server 12", "shop/api:proxy 2", "lonely 1"]);
    assert_eq!(groups(&all, &["-g", "pod"]), ["shop/api 14", "lonely 1"]);
    let exact = groups(&all, &["-g", "pod", "--names", "exact"]);
    assert_eq!(exact, ["shop/api-7d4b9c6f5d-x2k4p 8", "shop/api-7d4b9c6f5d-zzzzz 6", "lonely 1"]);
    let hostile = snapshot(&[("/docker/x", json!({"name": "\u{1b}[31m\n\u{202e}evil"}), 1)]);
    let page = page(&hostile);
    let lines: Vec<_> = page.lines().filter(|line| line.contains("evil")).collect();
    let [escaped] = lines[..] else { panic!("{page}") };
    assert!(!escaped.contains(['\u{1b}', '\u{202e}']), "names cannot control a terminal: {escaped:?}");
    let pattern = "/kubepods/pod{U}/{H}";
    let expected = [
        format!("{pattern} [shop/api:server] 12"),
        format!("{pattern} [shop/api:proxy] 2"),
        format!("{pattern} [lonely] 1"),
    ];
    assert_eq!(groups(&all, &["-g", "cgroup"]), expected);
}

#[test]
fn a_pod_without_a_name_is_a_row_with_its_id() {
    let other = POD.replace('0', "1");
    let path = |pod: &str, byte| format!("/kubepods/pod{pod}/{}", id(byte));
    let of_pod = |pod: &str| json!({"pod_uid": pod});
    let named = json!({"pod_uid": POD, "pod": "api-7d4b9c6f5d-x2k4p", "namespace": "shop"});
    let containers = [path(POD, 1), path(POD, 2), path(&other, 3)];
    let of = |pod: Value| {
        let all = [(&*containers[0], pod.clone(), 4), (&containers[1], pod, 2), (&containers[2], of_pod(&other), 1)];
        groups(&snapshot(&all), &["-g", "pod"])
    };
    assert_eq!(of(of_pod(POD)), [format!("pod{POD} 6"), format!("pod{other} 1")]);
    assert_eq!(of(named), ["shop/api 6".to_owned(), format!("pod{other} 1")]);
}

#[test]
fn redacted_containers_have_no_names_and_the_same_groups() {
    let pod = json!({"runtime": "containerd", "id": id(1), "pod": "payroll-0", "namespace": "finance", "name": "ledger",
                     "pod_uid": POD, "image": "registry.example/ledger"});
    let mut redacted = snapshot(&[(&format!("/kubepods/pod{POD}/{}", id(1)), pod, 1)]);
    redacted.redact("key");
    let text = serde_json::to_string(&redacted).unwrap();
    for secret in ["payroll", "finance", "ledger", "example", &id(1), POD] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    let group = groups(&redacted, &["-g", "pod"]).remove(0);
    assert!(group.ends_with("-{N} 1"), "the numbers of a StatefulSet stay: {group}");
}

#[test]
fn a_scope_of_containers_has_their_threads_and_cgroups_only() {
    let pod = |pod: &str, name: &str| json!({"pod": pod, "namespace": "shop", "name": name});
    let [one, two, three] = [1, 2, 3].map(|byte| format!("/kubepods/pod{POD}/{}", id(byte)));
    let mut all = snapshot(&[
        (&one, pod("api-7d4b9c6f5d-x2k4p", "server"), 8),
        (&two, pod("api-7d4b9c6f5d-zzzzz", "server"), 4),
        (&three, pod("api-7d4b9c6f5d-zzzzz", "proxy"), 2),
    ]);
    let stats: CgroupStats = serde_json::from_value(json!({"cpu": {"usage_usec": 1}})).unwrap();
    all.head.cgroup_stats = [&one, &two, &three].map(|path| (path.clone(), stats.clone())).into();
    let run = |scope: &str| groups(&all, &["--scope", scope]);
    assert_eq!(run("host"), ["app 14"]);
    for scope in ["container:server", "container:shop/api:server", "container:*/api:ser*"] {
        assert_eq!(run(scope), ["app 12"], "{scope}");
    }
    for scope in ["pod:api-7d4b9c6f5d-zzzzz", "pod:shop/api-7d4b9c6f5d-zzzzz"] {
        assert_eq!(run(scope), ["app 6"], "{scope}");
    }
    assert_eq!(
        (run("pod:shop/api"), groups(&all, &["--scope", "pod:api-*-z*", "-g", "cgroup"]).len()),
        (vec!["app 14".to_owned()], 2)
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    all.write(file.path()).unwrap();
    let path = file.path().to_str().unwrap();
    let out = crate::stored::program::run(&["show", path, "--scope", "container:servr"]);
    let error = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(error.contains("no container matches `servr`; did you mean `server`"), "{error}");
    let csv = crate::stored::program::printed(&[
        "show",
        path,
        "--scope",
        "container:server",
        "-g",
        "cgroup",
        "--format",
        "csv",
    ]);
    assert!(csv.contains(",all groups,cpu.usage_usec,us,2,2,2,"), "cgroups of other containers are left out: {csv}");
}

#[test]
fn a_row_by_cgroup_says_how_many_cgroups_it_stands_for() {
    let paths = [1, 2, 3].map(|byte| format!("/kubepods/pod{POD}/{}", id(byte)));
    let named = json!({"name": "lonely"});
    let all = snapshot(&[(&paths[0], json!({}), 4), (&paths[1], json!({}), 2), (&paths[2], named, 1)]);
    let file = tempfile::NamedTempFile::new().unwrap();
    all.write(file.path()).unwrap();
    let shown = |axis: &str, format: &str| {
        crate::stored::program::printed(&["show", file.path().to_str().unwrap(), "-g", axis, "--format", format])
    };
    for axis in ["cgroup", "all"] {
        let page = shown(axis, "table");
        assert!(page.contains("/kubepods/pod{U}/{H} (2 cgroups)") && page.contains("[lonely]  "), "{page}");
    }
    let report: Value = serde_json::from_str(&shown("cgroup", "json")).unwrap();
    let rows = report["rows"].as_array().unwrap().iter().filter(|row| row["section"] == "overview");
    let counts: BTreeSet<_> = rows.map(|row| (row["group"].as_str().unwrap(), row["cgroups"].as_u64())).collect();
    let (several, one) = (("/kubepods/pod{U}/{H}", Some(2)), ("/kubepods/pod{U}/{H} [lonely]", Some(1)));
    assert_eq!(counts, [several, one, ("all groups", None)].into());
}

/// The groups of a comparison of containers, by the names in its rows.
fn compared(baseline: &CtprofSnapshot, candidate: &CtprofSnapshot, axis: &str) -> BTreeSet<String> {
    let directory = tempfile::tempdir().unwrap();
    let [a, b] = [("a", baseline), ("b", candidate)].map(|(name, snapshot)| {
        let path = directory.path().join(name);
        snapshot.write(&path).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let report = crate::stored::program::printed(&["compare", &a, &b, "-g", axis, "--unchanged", "--format", "json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let rows = report["rows"].as_array().unwrap().iter().filter(|row| row["path"] != json!([]));
    rows.map(|row| row["group"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn containers_are_the_same_only_by_their_names_and_those_without_one_are_apart() {
    let [one, two] = [1, 2].map(|byte| format!("/docker/{}", id(byte)));
    let container = |id: &str, name: Option<&str>| json!({"runtime": "docker", "id": id, "name": name});
    let of = |names: [Option<&str>; 2]| {
        snapshot(&[(&one, container(&id(1), names[0]), 8), (&two, container(&id(2), names[1]), 4)])
    };
    let names = |groups: [&str; 2]| groups.map(str::to_owned).into();
    let (named, unnamed, others) = (of([Some("web"), Some("db")]), of([None, None]), of([Some("api"), Some("cache")]));
    for sides in [(&named, &unnamed), (&unnamed, &named)] {
        assert_eq!(compared(sides.0, sides.1, "container"), names(["web", "db"]), "one capture knows the names");
    }
    let short = [1, 2].map(|byte| format!("docker {}", &id(byte)[..12]));
    assert_eq!(compared(&unnamed, &unnamed, "container"), short.into());
    let paths = [3, 4].map(|byte| format!("/docker/{}", id(byte)));
    let mut renamed = others;
    renamed.threads.iter_mut().zip(&paths).for_each(|(thread, path)| thread.cgroup = Some(path.as_str().into()));
    renamed.head.containers =
        renamed.head.containers.into_values().zip(paths).map(|(named, path)| (path, named)).collect();
    assert_eq!(compared(&named, &renamed, "container"), ["web", "db", "api", "cache"].map(str::to_owned).into());
}

//! The cost of the names of containers: captures of a tree with a thread in each of 500 containers, and of one with as many
//! services, whose cgroups have paths of the same length.

use std::fs;
use std::path::Path;
use std::time::Instant;

use ctprof::capture::{Capturer, Options, Smaps};

const CONTAINERS: usize = 500;
const RUNS: usize = 21;
/// As long as that of Docker for a container without labels.
const CONFIGURATION_BYTES: usize = 4096;

pub(crate) fn table() -> anyhow::Result<()> {
    println!("## Containers\n");
    println!("| {CONTAINERS} cgroups | first capture | next capture |");
    println!("|---|---:|---:|");
    let id = |at: usize| format!("{at:064x}");
    let [services, containers] = [tempfile::tempdir()?, tempfile::tempdir()?];
    write_threads(services.path(), |at| format!("/system.slice/{at:050}.service"))?;
    write_threads(containers.path(), |at| format!("/docker/{}", id(at)))?;
    for at in 0..CONTAINERS {
        let name = format!(r#"{{"Config":{{"Image":"app:1"}},"Name":"/web-{at}","#);
        let rest = " ".repeat(CONFIGURATION_BYTES - name.len());
        let file = format!("var/lib/docker/containers/{}/config.v2.json", id(at));
        write(&containers.path().join(file), &format!(r#"{name}{rest}"State":{{}}}}"#))?;
    }
    // Alternately, so that both have the same host.
    let mut times = vec![[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for _ in 0..RUNS {
        for (root, times) in [&services, &containers].into_iter().zip(&mut times) {
            let mut options = Options::default();
            options.roots.procfs = root.path().join("proc");
            options.roots.sysfs = root.path().join("sys");
            let mut capturer = Capturer::new(options, 2)?;
            for times in times {
                let begin = Instant::now();
                capturer.capture(Smaps::Never)?;
                times.push(begin.elapsed());
            }
        }
    }
    for (name, times) in ["services", "containers"].into_iter().zip(&mut times) {
        let medians = times.each_mut().map(|times| {
            times.sort();
            format!("{:.1} ms", times[RUNS / 2].as_secs_f64() * 1e3)
        });
        println!("| {name} | {} |", medians.join(" | "));
    }
    println!();
    Ok(())
}

/// A thread in each of the cgroups.
fn write_threads(root: &Path, cgroup: impl Fn(usize) -> String) -> anyhow::Result<()> {
    for at in 0..CONTAINERS {
        let task = root.join(format!("proc/{0}/task/{0}", at + 10));
        // Fields from 3 on, as of Linux 6.12.
        write(&task.join("stat"), &format!("{} (app) S 1{} 0\n", at + 10, " 7".repeat(47)))?;
        write(&task.join("cgroup"), &format!("0::{}\n", cgroup(at)))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::create_dir_all(path.parent().expect("paths are below the tree"))?;
    Ok(fs::write(path, text)?)
}

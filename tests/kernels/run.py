#!/usr/bin/env python3
"""run.py DIR [KEEP [SERIES...]]: boots every kernel of DIR, captures there, checks the captures, prints a table per boot.

See README.md. KEEP is a directory for what the guests leave. With SERIES, only kernels whose release starts with one are
booted, and `arm64` boots the kernel of DIR/arm64. The exit status is 1 if a check failed.
"""
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

import engines
import windows
from guests import snapshot

ROOT = Path(__file__).resolve().parents[2]
CTPROF = ROOT / "target/release/ctprof"
BUILT = ("ctprof", "examples/churn", "examples/load", "examples/neighbor")
# Those of busybox lack options, or are not built in.
PROGRAMS = ("chrt", "nice", "script", "setpriv")
# An emulator may crash a kernel before the first process starts.
BOOT_ATTEMPTS = 4

# The guest's first process. Results leave as a tar through the second serial port.
INIT = """#!/bin/busybox sh
/bin/busybox echo %(started)s
/bin/busybox mkdir -p /proc /sys /dev /tmp /out
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup; mount -t bpf bpf /sys/fs/bpf
mount -t securityfs securityfs /sys/kernel/security
echo '+cpu +memory +pids +io' >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/burner; echo 20000 100000 >/sys/fs/cgroup/burner/cpu.max
%(setup)s
if [ -d /sys/kernel/sched_ext ]; then
    LD_LIBRARY_PATH=%(bpf_libraries)s %(bpf_loader)s /bpftool/usr/sbin/bpftool struct_ops register /minimal.o /sys/fs/bpf/minimal \
        >/out/sched_ext.log 2>&1
fi
mkfifo /tmp/stop; /load 3 </tmp/stop >/dev/null 2>&1 & exec 9>/tmp/stop
sh -c 'echo $$ >/sys/fs/cgroup/burner/cgroup.procs; exec dd if=/dev/zero of=/dev/null bs=1M' 2>/dev/null &
sleep 1
for snapshot in a b; do
    /ctprof capture --engine procfs -o /out/$snapshot.ctprof.zst 2>/out/$snapshot.log; echo $? >>/out/status; sleep 1
done
/ctprof doctor >/out/doctor 2>&1
/ctprof compare /out/a.ctprof.zst /out/b.ctprof.zst --group-by cgroup >/out/compare 2>&1; echo $? >>/out/status
/ctprof show /out/b.ctprof.zst >/out/show 2>&1; echo $? >>/out/status
killall load dd
mkdir /out/engines; sh /engines.sh /out/engines
mkdir /out/windows; sh /windows.sh /out/windows
stty -F %(results)s raw
tar -C /out -cf %(results)s .
rm -r /out/*; mkdir /out/windows; sh /suspend.sh /out/windows 2>/out/windows/suspend.log
stty -F %(results)s raw
tar -C /out -cf %(results)s .
sync; stty -F %(results)s raw
# Without the shutdown of devices, which some emulated ones don't survive after a suspend.
echo b >/proc/sysrq-trigger
"""

STARTED = "the first process has started"

SWITCHED_ON = """
echo 1 >/proc/sys/kernel/sched_schedstats
[ -e /proc/sys/kernel/task_delayacct ] && echo 1 >/proc/sys/kernel/task_delayacct
"""


class Machine(NamedTuple):
    """An architecture: what emulates it, and what its guests run."""

    emulator: list
    # The serial ports of the console, as the kernel names it, and of the results, for the emulator and in the guest.
    console: str
    results: tuple
    compiler: str
    # The directory of what cargo builds for it.
    built: Path
    # A directory with Debian's programs and libraries for it, where the host's cannot be used.
    root: Path | None
    boot_seconds: int


def machines(kernels):
    """x86-64 and arm64. QEMU 7.2 sometimes returns wrong flags after the instruction of cx16, which crashes Linux 6.12."""
    return (
        Machine(["qemu-system-x86_64", "-machine", "q35", "-cpu", "max,la57=off,cx16=off", "-global", "ICH9-LPC.disable_s3=0"],
                "ttyS0", ("isa-serial", "/dev/ttyS1"), "cc", CTPROF.parent, None, 900),
        Machine(["qemu-system-aarch64", "-machine", "virt,gic-version=3", "-cpu", "max,pauth-impdef=on"],
                "ttyAMA0", ("pci-serial", "/dev/ttyS0"), "aarch64-linux-gnu-gcc",
                ROOT / "target/aarch64-unknown-linux-gnu/release", kernels / "arm64/root", 3600))


def libraries(program):
    """The loader and libraries of a dynamically linked program."""
    listing = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", listing)


def copy_programs(machine, tree):
    """Copies the programs of a guest and their libraries, and builds the one of threads with a history."""
    (tree / "bin").mkdir(parents=True)
    built = [machine.built / name for name in BUILT]
    if machine.root:
        programs = [*built, *(machine.root / "usr/bin" / name for name in PROGRAMS)]
        shutil.copytree(machine.root / "usr/lib", tree / "usr/lib", symlinks=True, ignore=shutil.ignore_patterns("gconv"))
        (tree / "lib").symlink_to("usr/lib")
        shutil.copy(machine.root / "usr/bin/busybox", tree / "bin/busybox")
    else:
        programs = [*built, *map(shutil.which, PROGRAMS)]
        for library in {library for program in programs for library in libraries(program)}:
            target = tree / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)
        shutil.copy("/bin/busybox", tree / "bin/busybox")
    for program in programs:
        shutil.copy(program, tree / Path(program).name)
    history = [machine.compiler, "-O1", "-static", "-pthread", "-o", tree / "history", ROOT / "tests/programs/history.c"]
    subprocess.run(history, check=True)


def copy_scheduler(kernels, tree):
    """Builds the minimal scheduler and copies what loads it. Returns the loader and the path of its libraries."""
    bpftool = kernels / "bpftool"
    shutil.copytree(bpftool, tree / "bpftool", symlinks=True, ignore=shutil.ignore_patterns("share", "gconv", "locale"))
    found = {str(path.parent.relative_to(bpftool)) for path in bpftool.rglob("*.so.*")}
    loader = next(bpftool.rglob("ld-linux-x86-64.so.2")).relative_to(bpftool)
    subprocess.run(["clang", "-g", "-O2", "-target", "bpf", "-c", ROOT / "tests/kernels/minimal.bpf.c", "-o",
                    tree / "minimal.o"], check=True)
    return f"/bpftool/{loader}", ":".join(f"/bpftool/{path}" for path in sorted(found))


def initramfs(work, machine, kernels, setup):
    """A cpio archive with everything that the guest needs."""
    tree = work / "tree"
    copy_programs(machine, tree)
    for script in ("engines.sh", "windows.sh", "suspend.sh"):
        shutil.copy(ROOT / "tests/kernels" / script, tree / script)
    loader, bpf_libraries = ("", "") if machine.root else copy_scheduler(kernels, tree)
    values = {"started": STARTED, "setup": setup, "bpf_libraries": bpf_libraries, "bpf_loader": loader,
              "results": machine.results[1]}
    (tree / "init").write_text(INIT % values)
    (tree / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    with open(work / "initrd", "wb") as archive:
        subprocess.run(["cpio", "--quiet", "-o", "-H", "newc"], cwd=tree, input=names.encode(), stdout=archive, check=True)
    return work / "initrd"


def boot(kernel, machine, kernels, cmdline, setup):
    """What the guest left in /out, as a directory."""
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        initrd, console, results = initramfs(work, machine, kernels, setup), work / "console", work / "results"
        disk = work / "disk"
        disk.touch()
        os.truncate(disk, 256 << 20)
        for _ in range(BOOT_ATTEMPTS):
            emulate(kernel, machine, initrd, disk, console, results, cmdline)
            if STARTED in console.read_text(errors="replace"):
                break
        out = Path(tempfile.mkdtemp())
        try:
            # One archive from before the suspend, and one from after it.
            with tarfile.open(results, "r:", ignore_zeros=True) as tar:
                tar.extractall(out, filter="data")
        except tarfile.TarError as error:
            sys.exit(f"{kernel.name}: no results ({error}); its console ends:\n{console.read_text(errors='replace')[-2000:]}")
        return out


def emulate(kernel, machine, initrd, disk, console, results, cmdline):
    """Boots a kernel and waits for its end. A guest that hangs has left what it wrote."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [*machine.emulator, "-nodefaults", "-no-reboot", "-display", "none", "-accel", "tcg", "-m", "1G", "-smp", "2",
             "-kernel", kernel, "-initrd", initrd,
             "-drive", f"if=none,id=disk,format=raw,cache=unsafe,file={disk}", "-device", "nvme,drive=disk,serial=1",
             "-append", f"console={machine.console} panic=-1 loglevel=4 {cmdline}",
             "-serial", f"file:{console}", "-chardev", f"file,id=results,path={results}",
             "-device", f"{machine.results[0]},chardev=results"],
            timeout=machine.boot_seconds, check=True, stdin=subprocess.DEVNULL)


def checks(out, kernel, expect):
    """The facts of a boot, and the checks that failed."""
    taken = snapshot(out / "b.ctprof.zst")
    threads, host = taken["threads"], taken["host"]
    having = lambda name: sum(name in thread for thread in threads)
    load = next(thread for thread in threads if thread["comm"] == "load-1")
    burner = taken["cgroup_stats"].get("/burner", {})
    doctor = (out / "doctor").read_text()
    scx = taken.get("sched_ext") or {}
    facts = {
        "threads": len(threads),
        "taskstats": taken["taskstats_summary"].get("struct_version"),
        "schedstats": "on" if "wait_max" in load else "off",
        "delays": "on" if "blkio_delay_count" in load else "off",
        "psi": "on" if "psi" in taken else "off",
        "ext_enabled": load.get("ext_enabled"),
        "ops": scx.get("ops"),
        "cgroup": f"{burner.get('cpu', {}).get('nr_throttled', 0)} throttled",
        "missing": sum(line.startswith("missing:") for line in (out / "b.log").read_text().splitlines()),
    }
    failed = [name for name, value in expect.items() if facts[name] != value]
    must = {
        "every command succeeds": (out / "status").read_text().split() == ["0"] * 4,
        "all threads have switches and CPU time": having("voluntary_csw") == having("run_time_ns") == len(threads),
        "taskstats answers for all": taken["taskstats_summary"]["ok_count"] + taken["taskstats_summary"]["esrch_count"]
            == len(threads),
        "no file failed": taken["parse_summary"]["read_failures"] == 0,
        "the release is the kernel's": host["kernel_release"] == kernel,
        "one layout of cgroups": host["cgroup_layout"] == "unified",
        # sched_ext's own defaults enforce no cpu.max.
        "the burner is throttled": facts["ops"] is not None or burner.get("cpu", {}).get("nr_throttled", 0) > 0,
        "the comparison names the cgroup": "/burner" in (out / "compare").read_text(),
        "what is off is named with its fix": all(
            on == "on" or fix in doctor
            for on, fix in [(facts["schedstats"], "kernel.sched_schedstats=1"),
                             (facts["delays"], "kernel.task_delayacct=1"), (facts["psi"], "psi=1")]),
    }
    return facts, failed + [what for what, holds in must.items() if not holds]


def matrix(kernels):
    """Each boot: kernel, machine, what is different about it, command line, setup, expectations."""
    x86_64, arm64 = machines(kernels)
    def series(prefix):
        found = sorted(kernels.glob(f"vmlinuz-{prefix}.*"))
        return found[-1] if found else sys.exit(f"{kernels}: no kernel {prefix}; run tests/kernels/fetch")
    version = lambda path: [int(n) for n in re.findall(r"\d+", path.name)[:3]]
    newest = max(kernels.glob("vmlinuz-*"), key=version)
    on = {"schedstats": "on", "delays": "on", "psi": "on"}
    scx = {**on, "ext_enabled": True, "ops": "minimal"}
    yield series("5.10"), x86_64, "", "psi=1", SWITCHED_ON, {**on, "taskstats": 10, "ext_enabled": None}
    yield series("6.1"), x86_64, "", "psi=1", SWITCHED_ON, {**on, "taskstats": 13, "ext_enabled": None}
    yield series("6.12"), x86_64, "", "psi=1", SWITCHED_ON, {**on, "taskstats": 14, "ext_enabled": None}
    yield series("6.12"), x86_64, "as it boots", "psi=1", "", {"schedstats": "off", "delays": "off", "psi": "on"}
    yield series("6.12"), x86_64, "psi=0", "psi=0", SWITCHED_ON, {**on, "psi": "off"}
    # Without bpf_probe_read_kernel, these are out of reach.
    locked = "psi=1 lockdown=confidentiality"
    yield series("5.10"), x86_64, "lockdown", locked, SWITCHED_ON, {**on, "taskstats": 10, "rejected": ["hiwater_rss_bytes"]}
    yield series("6.1"), x86_64, "lockdown", locked, SWITCHED_ON, {**on, "rejected": ["hiwater_rss_bytes"]}
    yield series("6.12"), x86_64, "lockdown", locked, SWITCHED_ON, on
    yield series("6.16"), x86_64, "sched_ext", "psi=1", SWITCHED_ON, {**scx, "taskstats": 16}
    yield newest, x86_64, "newest", "psi=1", SWITCHED_ON, scx
    for kernel in sorted((kernels / "arm64").glob("vmlinuz-*")):
        yield kernel, arm64, "arm64", "psi=1", SWITCHED_ON, {**on, "taskstats": 14, "ext_enabled": None}


def row(cells):
    return "| " + " | ".join("-" if cell is None else str(cell) for cell in cells) + " |"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    kernels, keep, only, broken = Path(sys.argv[1]).resolve(), sys.argv[2:3], tuple(sys.argv[3:]), 0
    for kernel, machine, variant, cmdline, setup, expect in matrix(kernels):
        release = kernel.name.removeprefix("vmlinuz-")
        if only and not (release.startswith(only) and variant != "arm64" or variant in only):
            continue
        out = boot(kernel, machine, kernels, cmdline, setup)
        rejected = expect.pop("rejected", [])
        facts, failed = checks(out, release, expect)
        by_engine, wrong_values = engines.check(out / "engines", CTPROF, release, rejected)
        by_window, wrong_windows = windows.check(out / "windows", CTPROF)
        title = f"{release}, {variant}" if variant else release
        print(f"\n{row([title, 'failed: ' + '; '.join(failed) if failed else 'ok'])}\n|---|---|")
        print("\n".join(map(row, [*facts.items(), *by_engine.items(), *by_window.items()])), flush=True)
        if failed:
            for log in ("sched_ext.log", "b.log", "doctor"):
                if (out / log).exists():
                    print((out / log).read_text(), file=sys.stderr)
        broken += bool(failed or wrong_values or wrong_windows)
        if keep:
            shutil.copytree(out, Path(keep[0]) / title)
        shutil.rmtree(out)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()

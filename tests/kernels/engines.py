"""Checks of the captures that engines.sh made in a guest: by procfs, by BPF, and by procfs again.

A value that both captures by procfs have must be BPF's too, and a counter that grew meanwhile is between. A value that procfs
does not have must not be in BPF's.
"""
import json
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import guests
from guests import require

COUNTERS = {"MonotonicNs", "MonotonicCount", "ClockTicks", "Bytes", "PeakNs", "PeakBytes"}
# User and system time are parts of a sum, each rounded down.
CPU_TICKS = ("utime_clock_ticks", "stime_clock_ticks")
# What threads with a history show of it.
TRACES = Path(__file__).resolve().parents[1] / "root/traces.tsv"
IDENTITY = ("comm", "pcomm", "cgroup", "kernel_thread")
# What a check must have compared at least: quiescent threads, their metrics, and counters that changed.
MIN_THREADS, MIN_METRICS, MIN_CHANGED = 20, 25, 5
# Of threads with a history.
MIN_HISTORIES = 200


class Kernel(NamedTuple):
    """What a guest's kernel does otherwise than others."""
    version: tuple
    rejected: list


def ids(snapshot):
    """The threads of a snapshot by id."""
    return {(thread["tgid"], thread["tid"], thread["start_time_clock_ticks"]): thread for thread in snapshot["threads"]}


class Captures:
    """The three captures of one condition."""

    def __init__(self, guest, name):
        self.snapshots = [guest.snapshot(f"{name}-{step}") for step in ("before", "bpf", "after")]
        self.capture = self.snapshots[1]["capture"]
        before, bpf, after = map(ids, self.snapshots)
        self.missing = [before[key]["comm"] for key in before.keys() & after.keys() - bpf.keys()]
        self.threads = [(before[key], bpf[key], after[key]) for key in sorted(before.keys() & bpf.keys() & after.keys())]
        work = lambda thread: (thread["run_time_ns"], thread["timeslices"])
        self.quiescent = [each for each in self.threads if work(each[0]) == work(each[2])]


def metrics(guest):
    """The type of each metric, and of each counter of a process."""
    listed = json.loads(subprocess.run([guest.ctprof, "metrics", "-f", "json"], capture_output=True, check=True).stdout)
    return {metric["name"]: metric["type"] for metric in listed["metrics"] if metric.get("kernel_field")}


def differences(types, before, bpf, after, quiescent):
    """The values that should be equal or between and are not, by name."""
    for name, kind in types.items():
        first, value, last = (thread.get(name) for thread in (before, bpf, after))
        if last is None:
            wrong = value is not None
        elif first is None:
            continue
        elif name in CPU_TICKS and not quiescent:
            # The kernel splits the run time again at each read of procfs, and remembers the parts only then.
            first, value, last = (sum(thread[name] for name in CPU_TICKS) for thread in (before, bpf, after))
            wrong = not first - 1 <= value <= last + 1
        elif value is None:
            # Of a thread that started while delays were disabled, taskstats says 0.
            wrong = "_delay_" not in name or has_delays(bpf) or last != 0
        elif first == last:
            wrong = value != first and (quiescent or kind in COUNTERS)
        else:
            wrong = kind in COUNTERS and not first <= value <= last
        if wrong:
            yield f"{name} of {bpf['comm']} ({bpf['tid']}): {first}, by BPF {value}, then {last}"


def identity(before, bpf, after):
    # Workers of the kernel are named after what they did last.
    fixed = lambda value: re.sub("^(kworker/[^-+]*).*", r"\1", value) if isinstance(value, str) else value
    for name in IDENTITY:
        first, value, last = (fixed(thread.get(name)) for thread in (before, bpf, after))
        if first == last != value:
            yield f"{name} of {bpf['tid']}: {first!r}, by BPF {value!r}"
    if ("process" in before) != ("process" in bpf):
        yield f"counters of process {bpf['tgid']}: {before.get('process')}, by BPF {bpf.get('process')}"


def has_delays(thread):
    """Whether the kernel counts delays of the thread. If not, taskstats says 0."""
    return "blkio_delay_count" in thread


def parity(guest, name, least=MIN_CHANGED, quiescent_least=MIN_THREADS):
    """Compares all values of three captures, the second of which is by BPF."""
    captures, types = Captures(guest, name), metrics(guest)
    require(captures.capture["engine"] == "bpf", f"{captures.capture['engine']}: {captures.capture.get('no_bpf')}")
    require(not captures.missing, f"{len(captures.missing)} threads missing: {captures.missing[:5]}")
    require(captures.snapshots[1]["parse_summary"]["smaps_skipped"] == 0, "the size of processes is unknown")
    use, wrong = captures.capture["bpf"], []
    require(use["missed_processes"] == 0, f"{use}")
    types = {name: kind for name, kind in types.items() if name not in use.get("dropped", [])}
    for before, bpf, after in captures.threads:
        quiescent = (before, bpf, after) in captures.quiescent
        wrong += identity(before, bpf, after)
        wrong += differences(types, before, bpf, after, quiescent)
        if "process" in before and "process" in after and "process" in bpf:
            processes = (each["process"] | {"comm": bpf["comm"], "tid": bpf["tid"]} for each in (before, bpf, after))
            counters = dict.fromkeys(before["process"], "MonotonicCount") | {"ppid": "OrdinalU32"}
            wrong += differences(counters, *processes, quiescent)
    require(not wrong, f"{len(wrong)} differences: " + "; ".join(wrong[:12]))
    compared = {name for name in types if any(name in before and name in bpf and before[name] == after.get(name)
                                              for before, bpf, after in captures.quiescent)}
    expected = {name for name in types for before, bpf, _ in captures.quiescent
             if name in before and ("_delay_" not in name or has_delays(bpf))}
    require(expected <= compared, f"not compared: {' '.join(sorted(expected - compared))}")
    not_zero = {name for name in compared if any(bpf.get(name) for _, bpf, _ in captures.quiescent)}
    changed = {name for name in types for before, bpf, after in captures.threads
               if types[name] in COUNTERS and (before.get(name) or 0) < (after.get(name) or 0) and name in bpf}
    text = f"{len(captures.quiescent)} of {len(captures.threads)} threads quiescent, {len(compared)} metrics equal, " \
           f"{len(not_zero)} of them not 0, {len(changed)} between"
    require(len(captures.quiescent) >= quiescent_least and len(not_zero) >= MIN_METRICS and len(changed) >= least, text)
    return text


def is_left(value, expected):
    """Whether a value is as in a row of the table of traces."""
    if expected == ">0":
        return value is not None and value > 0
    return isinstance(value, list) and len(value) == 1 if expected == "one" else json.dumps(value) == expected


def value_at(thread, field):
    for key in field.split("/"):
        thread = (thread or {}).get(key)
    return thread


def histories(guest, name):
    """Compares threads with a history, and checks that they have it, or said why they cannot."""
    text = parity(guest, name, 0, MIN_HISTORIES)
    threads = [thread for thread in guest.snapshot(f"{name}-bpf")["threads"] if thread["pcomm"] == "history"]
    said = "".join(guest.text(f"{name}.{number}") for number in (1, 2, 3))
    absent = dict(re.findall(r"^absent (.*?): (.*)$", said, re.MULTILINE))
    rows = [line.split("\t") for line in TRACES.read_text().splitlines()[2:]]
    rows = [row for row in rows if len(row) == 3 or any(map(has_delays, threads))]
    without = {comm for comm, field, expected, *_ in rows
               if not any(is_left(value_at(thread, field), expected) for thread in threads if thread["comm"] == comm)}
    require(without <= absent.keys(), f"no history: {without - absent.keys()}")
    require(len(without) < len(rows) / 2, f"no history: {absent}")
    return text + "".join(f"; no {comm}: {absent[comm]}" for comm in sorted(without))


def is_used(guest, name, reason):
    """Whether BPF was used, and the reason if not."""
    capture = guest.snapshot(f"{name}-bpf")["capture"]
    found = capture["engine"] if capture["engine"] == "bpf" else capture["no_bpf"]["cause"]
    require(found == (reason or "bpf"), f"{found}, not {reason or 'bpf'}: {capture.get('no_bpf') or capture['bpf']}")
    return found


def cost(guest, _):
    """The time that programs took to load, and that a thread took."""
    snapshot = guest.snapshot("enabled-bpf")
    times = [thread["read_at_ns"] for thread in snapshot["threads"]]
    setup, per_thread = snapshot["capture"]["bpf"]["setup_ns"], (max(times) - min(times)) / (len(times) - 1)
    require(setup > 0 and per_thread > 0, f"{setup}, {per_thread}")
    return f"{setup / 1e6:.1f} ms to load, {per_thread / 1e3:.1f} µs per thread"


def without_privileges(guest, _):
    text = is_used(guest, "nobody", "permission-denied")
    message = guest.text("refused.log")
    require("cap_bpf" in message and "refused 1" in guest.text("status"), f"--engine bpf: {message}")
    return text


def locked_memory(guest, kernel):
    """Before Linux 5.11, programs count against the limit, which only root can raise."""
    text = parity(guest, "memlock")
    is_used(guest, "memlock-nobody", "memory-lock-limit" if kernel.version < (5, 11) else None)
    return text


def under_sched_ext(guest, _):
    """Only threads with the class of sched_ext are under it."""
    threads = guest.snapshot("enabled-bpf")["threads"]
    found = {under: sum(thread.get("ext_enabled") is under for thread in threads) for under in (True, False, None)}
    text = ", ".join(f"{count} {under}" for under, count in found.items() if count)
    require(found[None] in (0, len(threads)) and (found[None] or found[False]), text)
    return text


def rejected(guest, kernel):
    """Metrics without values because the verifier rejected their fields. They are named in the capture."""
    found = guest.snapshot("enabled-bpf")["capture"]["bpf"].get("dropped", [])
    require(found == kernel.rejected, f"{found}, not {kernel.rejected}")
    return " ".join(found) or None


def commands(guest, _):
    status = [line.split() for line in guest.text("status").splitlines()]
    failed = [" ".join(line) for line in status if line[1] != "0" and line[0] != "refused"]
    require(not failed and len(status) == 31, f"{len(status)} of 31, failed: {failed}; {guest.text('log')[-500:]}")
    return f"{len(status) - 1} succeeded"


CHECKS = {
    "captures": commands,
    "bpf, enabled": lambda guest, _: parity(guest, "enabled"),
    "bpf, disabled": lambda guest, _: parity(guest, "disabled"),
    "bpf, one process": lambda guest, _: is_used(guest, "process", "selected-processes"),
    "bpf, two capabilities": lambda guest, _: parity(guest, "capabilities"),
    "bpf, locked memory": locked_memory,
    "bpf, PID namespace": lambda guest, _: is_used(guest, "namespace", "pid-namespace"),
    "bpf, nobody": without_privileges,
    "bpf, sched_ext": under_sched_ext,
    "bpf, cost": cost,
    "bpf, rejected fields": rejected,
    "bpf, histories, enabled": lambda guest, _: histories(guest, "history"),
    "bpf, histories, disabled": lambda guest, _: histories(guest, "history-disabled"),
}


def check(out, ctprof, release, rejected):
    """The result of each check, and the names of those that failed. The verifier rejects the fields of some metrics."""
    version = tuple(int(number) for number in re.findall(r"\d+", release)[:2])
    return guests.run(CHECKS, guests.Guest(out, ctprof), Kernel(version, rejected))

"""Checks of the windows that windows.sh and suspend.sh recorded in a guest.

Each check compares a window with what the kernel itself counted before and after ctprof (`outer`) or within the
window (`inner`).
"""
import json
import re

import guests
from guests import Skipped, require

TICK_NS = 10_000_000
SECOND = 1_000_000_000


def is_close(value, truth):
    """Within 5 % or two ticks: the kernel counts the truth in ticks."""
    return abs(value - truth) <= max(truth * 0.05, 2 * TICK_NS)


class Window:
    """A window as JSON: its facts, and the overview in nanoseconds."""

    def __init__(self, text):
        page = json.loads(text)
        self.info, self.rows = page["snapshot"]["window"], page["rows"]
        self.duration = self.info["duration_ns"]

    def time(self, metric, *path):
        """A time of a group, or of all groups together; None if it is absent."""
        values = [row["value"] for row in self.rows if row["section"] == "overview" and row["metric"] == metric
                  and (row["path"] == list(path) if path else len(row["path"]) == 1)]
        values = [value for value in values if value is not None]
        return sum(values) / 100 * self.duration if values else None


def between_two(text, start, number):
    """The difference of a number in two copies of a file, each of which starts with `start`."""
    copies = [number(start + copy) for copy in text.split(start)[1:]]
    require(len(copies) == 2, f"{len(copies)} copies of 2")
    return copies[1] - copies[0]


def schedstat(text, field):
    """The increase of a field of the lines of CPUs (7 is run time, 8 is wait), in nanoseconds."""
    cpus = lambda copy: [line.split() for line in copy.splitlines() if line.startswith("cpu")]
    return between_two(text, "version ", lambda copy: sum(int(cpu[field]) for cpu in cpus(copy)))


def stat(line, *fields):
    """The sum of fields of /proc/PID/stat, counted from 1, in nanoseconds."""
    values = line.rpartition(")")[2].split()
    return sum(int(values[field - 3]) for field in fields) * TICK_NS


def storm(guest):
    """The command compares best: captures take an emulator a good part of a second, and the counters of the host and of
    ctprof itself are not read at one moment."""
    window = Window(guest.text("storm.json"))
    cpu, inner, outer = window.info["cpu"], guest.text("storm.inner"), guest.text("storm.outer")
    busy, most = schedstat(inner, 7), schedstat(outer, 7)
    start, end = (stat(line, 14, 15) for line in guest.text("storm.ctprof").splitlines())
    found = window.time("run") - window.time("run", "ctprof") + end - start
    text = f"{found / busy:.1%} of {busy / SECOND:.2f} s"
    text += f" ({cpu['explained_ns'] / SECOND:.2f} of {cpu['busy_ns'] / SECOND:.2f} s, {cpu['source']})"
    # Other threads also run in the window before and after the command.
    require(busy * 0.99 <= found <= busy * 1.01 + SECOND / 10, text)
    require(busy <= cpu["busy_ns"] <= most or cpu["source"] == "idle", f"{text}, {most / SECOND:.2f} s around ctprof")
    records = window.info.get("exit_records", {})
    require(records.get("source") == "bpf" and records["received"] + records["lost"] >= 2000, f"records: {records}")
    # The wait of others after their record is unknown.
    waited = window.time("wait") / cpu["wait_ns"]
    text += f", wait {waited:.1%}, {records['received']} records, {records['lost']} lost"
    require(0.95 <= waited <= 1.01, text)
    return text


def exits(guest, engine, is_recorded):
    window = Window(guest.show(f"exits-{engine}"))
    source = window.info.get("exit_records", {}).get("source")
    require(source == ("bpf" if is_recorded else None), f"records by {source}")
    start, computed, end = (stat(line, 16, 17) for line in guest.text(f"exits-{engine}.inner").splitlines())
    run = lambda *path: window.time("run", *path) or 0
    rest = run("ash", "(exited children)")
    found = rest + sum(map(run, ("awk", "neighbor", "sleep"))) if is_recorded else rest
    text = f"{found / SECOND:.2f} of {(end - start) / SECOND:.2f} s"
    require(end > start and is_close(found, end - start), text)
    if is_recorded:
        of_awk = f"awk {run('awk') / SECOND:.2f} of {(computed - start) / SECOND:.2f} s"
        require(is_close(run("awk"), computed - start), of_awk)
        threads = [thread for thread in guest.snapshot(f"exits-{engine}")["threads"] if thread["pcomm"] == "neighbor"]
        # Exited threads with equal names are one.
        count = sum(thread.get("count", 1) for thread in threads)
        lost = window.info["exit_records"]["lost"]
        require(4 - lost <= count <= 4, f"{count} threads of 4, {lost} lost")
    return text


def children(guest):
    window = Window(guest.show("children-a", "children-b"))
    start, end = (stat(line, 16, 17) for line in guest.text("children.inner").splitlines())
    found = window.time("run", "ash", "(exited children)") or 0
    text = f"{found / SECOND:.2f} of {(end - start) / SECOND:.2f} s"
    require(end > start and is_close(found, end - start), text)
    return text


def blocked(guest, name, truth):
    inner, outer = (truth(guest.text(f"{name}.{where}")) for where in ("inner", "outer"))
    found = Window(guest.text(f"{name}.json")).time("block", "dd")
    stats = re.findall(r"^\d+ \(dd\).*", guest.text(f"{name}.outer"), re.MULTILINE)
    if found is None and any(stat(line, 42) > stat(line, 22) for line in stats):
        raise Skipped("the kernel counts the time since its boot as a delay of dd, and ctprof drops it")
    require(found is not None, "absent")
    text = f"{found / SECOND:.2f} s in {inner / SECOND:.2f} to {outer / SECOND:.2f} s"
    require(inner > 2 * TICK_NS and inner - 2 * TICK_NS <= found <= outer + 2 * TICK_NS, text)
    return text


def block_io_delay(text):
    start, end = (stat(line, 42) for line in re.findall(r"^\d+ \(dd\).*", text, re.MULTILINE))
    return end - start


def block_schedstat(guest):
    kept = re.findall(r"sum_block_runtime\s*:\s*(\S+)", guest.text("block_schedstat.outer"))
    if not kept:
        raise Skipped("the kernel has no sum_block_runtime")
    if float(kept[-1]) == 0:
        # Under sched_ext.
        return blocked(guest, "block_schedstat", block_io_delay) + " of delays, sum_block_runtime is 0"
    of_copy = lambda copy: float(re.search(r"sum_block_runtime\s*:\s*(\S+)", copy)[1]) * 1_000_000
    return blocked(guest, "block_schedstat", lambda text: between_two(text, "dd (", of_copy))


def block_delays(guest):
    return blocked(guest, "block_delays", block_io_delay)


def clock(guest):
    snapshot = guest.snapshot("clock")
    window, threads = snapshot["window"], snapshot["threads"]
    text = f"{window['duration_ns'] / SECOND:.2f} s"
    # It is between the times when threads were read, which a slow first pass moves closer to the second.
    require(1.9 * SECOND <= window["duration_ns"] < 6 * SECOND, text)
    require("suspended_ns" not in window, f"{text}, suspended for {window.get('suspended_ns')} ns")
    alive = [thread.get("alive_ns", 0) for thread in threads]
    require(max(alive) < 8 * SECOND, f"a thread was alive for {max(alive)} ns")
    is_time = lambda name, value: name.endswith(("_ns", "_ticks")) and isinstance(value, int)
    objects = [snapshot["cpu_time"], window["cpu"], *threads]
    times = [value for item in objects for name, value in item.items() if is_time(name, value)]
    # A negative number, read as unsigned, is beyond all times.
    require(len(times) > 100 and all(0 <= value < 1 << 62 for value in times), f"{text}, a negative time")
    return text


def cgroups(guest):
    """Increases of counters of cgroups are the differences of their files, to the last digit."""
    copies = ({}, {})
    for line in guest.text("cgroups.outer").splitlines():
        name, _, value = line.rpartition(" ")
        copies[name in copies[0]][name] = int(value)
    stats = guest.snapshot("cgroups")["cgroup_stats"]
    compared = {}
    for name, value in copies[1].items():
        group, file, key = re.fullmatch(r"(/\w+)/(\S+) (\S+)", name).groups()
        place = {"cpu.stat": "cpu", "memory.stat": "memory_stat", "memory.events": "memory_events"}[file]
        values = stats.get(group, {})
        values = values.get(place, values.get("memory", {}).get(place.removeprefix("memory_"), {}))
        is_counter = place != "memory_stat" or re.match(r"pg|workingset_refault", key)
        if is_counter and key in values:
            compared[name] = values[key], value - copies[0][name]
    changed = {name: pair for name, pair in compared.items() if pair[1]}
    wrong = {name: pair for name, pair in changed.items() if pair[0] != pair[1]}
    require(not wrong, f"window and files differ: {wrong}")
    expected = {"/throttled/cpu.stat usage_usec", "/small/memory.events max"}
    require(expected <= changed.keys(), f"changed: {sorted(changed)}")
    return f"{len(changed)} of {len(compared)} changed, equal"


def series(guest):
    """The kernel takes the program whose passes return what changed, and steps add up to the window."""
    require("each step reads all threads" not in guest.text("series.log"), "the filter is refused")
    steps = guest.show("series", options=("--steps", "-f", "json", "-n", "0")).splitlines()
    whole, steps = Window(guest.show("series")), [Window(step) for step in steps]
    require(len(steps) >= 3, f"{len(steps)} steps")
    sums = [whole.time("run"), sum(step.time("run") or 0 for step in steps)]
    text = f"{len(steps)} steps, {sums[1] / SECOND:.3f} of {sums[0] / SECOND:.3f} s"
    require(abs(sums[0] - sums[1]) <= max(sums[0] * 0.01, 2 * TICK_NS), text)
    return text


def screen(guest, name, culprit):
    """The group to blame is in the first three rows."""
    lines = guest.show(name, options=()).splitlines()
    heading = next(number for number, line in enumerate(lines) if line.startswith("group"))
    rows = [line.split()[0] for line in lines[heading + 1:heading + 4]]
    require(culprit in rows, f"first rows: {rows}")
    return f"row {rows.index(culprit) + 1}"


def is_at_least(guest, version):
    release = guest.snapshot("screen-small")["host"]["kernel_release"]
    return tuple(map(int, re.findall(r"\d+", release)[:2])) >= version


def sampled(guest, name, pcomm, key):
    """The percentages of a program's time, by what `key` takes from each reason."""
    found = guest.snapshot(name)["reasons"]
    times = {}
    for threads, number, nanoseconds, _ in found["times"]:
        if found["threads"][threads]["pcomm"] == pcomm:
            of = key(found["reasons"][number])
            times[of] = times.get(of, 0) + nanoseconds
    return {of: round(100 * time / sum(times.values())) for of, time in times.items()}


def class_and_entry(reason):
    return f"{reason['class']} {reason.get('entry', '')}".strip()


def reasons(guest):
    """What the throttled dd, the cat whose memory is limited and a sleep have waited for, and what sampled them."""
    sampling = guest.snapshot("screen-throttled")["reasons"]["sampling"]
    dd = sampled(guest, "screen-throttled", "dd", class_and_entry)
    cat, sleep = (sampled(guest, "screen-small", pcomm, class_and_entry) for pcomm in ("cat", "sleep"))
    text = f"{sampling['source']}: dd {dd}, cat {cat}, sleep {sleep}"
    is_bpf = sampling["source"] == "bpf"
    # Before, each pass needs the capabilities that only loading has.
    require(is_bpf == is_at_least(guest, (5, 19)), text)
    # Of a scheduler of sched_ext, quotas hold nobody back.
    is_held = guest.snapshot("screen-throttled")["cgroup_stats"]["/throttled"]["cpu"]["nr_throttled"] > 0
    require(not is_held or dd.get("cpu_quota" if is_bpf else "wait", 0) > 40, text)
    require(set(sleep) <= {"idle nanosleep", "idle clock_nanosleep"}, text)
    require(sampling["lost"] == 0, f"{sampling['lost']} samples lost")
    return text


def stacks(guest):
    """A program without symbols calls the function of the C library in which it sleeps."""
    shares = sampled(guest, "stacks", "neighbor", lambda reason: reason.get("stack", "") if reason["class"] == "sleep" else None)
    shares.pop(None, None)
    most = max(shares, key=shares.get)
    is_named = most.startswith("libc.so.6:clock_nanosleep;neighbor:")
    # Before, BPF programs cannot find threads by their ids.
    require(is_named == is_at_least(guest, (6, 10)), f"{shares}")
    return most or "none"


def top(guest):
    """The full screen has the group that runs, and what the keys do."""
    screen = guest.text("top.screen")
    require("neighbor" in screen and "q quit" in screen, screen[-500:])
    return "shown"


def suspend(guest):
    if not (guest.out / "suspend.ctprof.zst").exists():
        raise Skipped("the guest did not wake up")
    boot = [float(line.split()[0]) for line in guest.text("suspend.outer").splitlines()[::2]]
    monotonic = [int(line.split()[2]) / SECOND for line in guest.text("suspend.outer").splitlines()[1::2]]
    if boot[1] - boot[0] < 3:
        raise Skipped(guest.text("suspend.log").strip() or "the guest did not sleep")
    truth = boot[1] - boot[0] - (monotonic[1] - monotonic[0])
    if truth < 1:
        raise Skipped(f"the guest slept for {boot[1] - boot[0]:.2f} s, in which its monotonic clock went on")
    window = guest.snapshot("suspend")["window"]
    suspended, duration = window.get("suspended_ns", 0) / SECOND, window["duration_ns"] / SECOND
    text = f"{suspended:.2f} of {truth:.2f} s, and {duration:.2f} s awake"
    require(abs(suspended - truth) < 0.1 and 8 <= duration < 16, text)
    return text


def commands(guest):
    status = guest.text("status").split()
    require(status == ["0"] * 14, f"exit status: {status}")
    return "14 succeeded"


CHECKS = {
    "commands": commands,
    "fork storm": storm,
    "exits, BPF": lambda guest: exits(guest, "bpf", is_recorded=True),
    "exits, procfs": lambda guest: exits(guest, "procfs", is_recorded=False),
    "steps": series,
    "exited children": children,
    "block, schedstats": block_schedstat,
    "block, delays": block_delays,
    "clock step": clock,
    "cgroup counters": cgroups,
    "throttled": lambda guest: screen(guest, "screen-throttled", "dd"),
    "little memory": lambda guest: screen(guest, "screen-small", "cat"),
    "reasons": reasons,
    "stacks": stacks,
    "top": top,
    "suspend": suspend,
}


def check(out, ctprof):
    """The result of each check, and the names of those that failed."""
    return guests.run(CHECKS, guests.Guest(out, ctprof))

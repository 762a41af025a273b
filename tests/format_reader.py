"""Reads a window, or a part of a series, as docs/format.md describes them, and prints sums per process name as JSON.

    format_reader.py FILE [FROM TO]    # seconds since the start of a series
"""

import json
import subprocess
import sys

METRICS = ["run_time_ns", "voluntary_csw", "nonvoluntary_csw"]
CAPTURE_FOLLOWS = bytes.fromhex("5c2a4d1808000000")


def documents(data):
    unpacked = subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    is_series = unpacked.startswith(b'{"series":')
    return [json.loads(line) for line in unpacked.split(b"\n")[:-1]] if is_series else [json.loads(unpacked)]


def threads(snapshot):
    """The threads of a snapshot, with the common values."""
    usual = snapshot.get("usual", {})
    for thread in snapshot["threads"]:
        columns = zip(usual.get("columns", []), thread.get("values", []))
        yield {**usual, **{name: value for column, value in columns for name in column}, **thread}


def by_id(threads):
    return {(thread["tgid"], thread["tid"]): thread for thread in threads}


def changed(value, change):
    """A value of the head after a step."""
    if isinstance(change, list):
        return change[0]
    if isinstance(change, dict):
        now = {key: changed(value.get(key), new) for key, new in change.items() if new is not None}
        return {**{key: old for key, old in value.items() if key not in change}, **now}
    return value + change


def rows(table, before):
    """The threads of a table after a step."""
    now = [{**before[tuple(row)]} if isinstance(row, list) else row for row in table["rows"]]
    for thread, at_ns in zip(now, table["read_at_ns"]):
        thread["read_at_ns"] = at_ns or 0
    for name, column in table["metrics"].items():
        for thread, more in zip(now, column):
            thread[name] = None if more is None else (thread.get(name) or 0) + more
    for row, name, value in table.get("words", []):
        now[row][name] = value
    return now


def times(step, sleepers):
    """The times of reasons of a step: by threads, lists of class, nanoseconds and samples. `sleepers` are those of the step before."""
    named, slept, all, waited = step.get("reasons"), step.get("slept_on"), {}, set()
    if named:
        waited = {json.dumps(named["threads"][int(place)], sort_keys=True) for place in named.get("longest_waits", {})}
        for thread, reason, ns, samples in named["times"]:
            of = json.dumps(named["threads"][thread], sort_keys=True)
            all.setdefault(of, []).append((named["reasons"][reason], ns, samples))
    if slept:
        ended = [json.dumps(threads, sort_keys=True) for threads in slept.get("ended", [])]
        for of in sleepers.keys() - all.keys() - set(ended):
            reason, count = sleepers[of]
            all[of] = [(reason, count * slept["ns"], count * slept["samples"])]
        sleepers.clear()
        for of, [(reason, ns, samples), *more] in all.items():
            count = ns // slept["ns"]
            if count and not more and of not in waited and (ns, samples) == (count * slept["ns"], count * slept["samples"]):
                sleepers[of] = reason, count
    else:
        sleepers.clear()
    return all


def part(first, steps, begin_ns, since_ns):
    """The captures at both ends of the steps whose middle is in a part, and what exited and waited in them."""
    head, now, begin, exits, waits, sleepers = first, by_id(threads(first)), None, [], [], {}
    for step in steps:
        if "series" in step:
            sleepers.clear()  # The capture after the step before, from which reading can begin.
            continue
        start_ns, length_ns = head["capture"]["boottime_ns"] - begin_ns, step["head"]["capture"]["boottime_ns"]
        middle_ns = start_ns + length_ns // 2
        if begin is None and (middle_ns > since_ns[0] or start_ns + length_ns >= since_ns[1]):
            begin, since_ns[1] = (head, dict(now)), max(since_ns[1], middle_ns)
        if middle_ns > since_ns[1]:
            break
        head, reasons = changed(head, step["head"]), times(step, sleepers)
        for thread in step.get("gone", []):
            del now[tuple(thread)]
        now.update(by_id(rows(step["threads"], now)))
        if begin:
            waits.append(reasons)
            exits += zip(rows(step["exits"]["threads"], {}), step["exits"]["rows"]) if "exits" in step else []
    return begin, (head, now), exits, waits


def lives(begin, end, exits):
    """The threads of a part, each with what it had done before, and whether it exited. Values of `lost` ones are unknown."""
    (first, before), (last, after) = (begin[0], dict(begin[1])), end
    start_ns, end_ns = [head["capture"]["monotonic_ns"] for head in (first, last)]
    start, left = "start_time_clock_ticks", {}

    def earlier(thread):
        old = before.get((thread["tgid"], thread["tid"]), {})
        return old if old.get(start) == thread.get(start) else {}

    def since(thread, old, ns=float("inf")):
        is_first = thread["tid"] == thread["tgid"] > 0
        programs = left.get((thread["tgid"], thread[start]), []) if is_first else []
        return next((program for left_ns, program in reversed(programs) if left_ns < ns), old)

    for thread, exit in exits:
        ns = exit["started_monotonic_ns"] + exit["elapsed_ns"]
        if exit.get("executed"):
            is_old = earlier({**thread, "tid": thread["tgid"]})
            old = before.get((thread["tgid"], thread["tid"]), {}) if is_old else {}
            if is_old or start_ns <= exit["started_monotonic_ns"] < end_ns:
                yield {**thread, "count": 0}, since(thread, old, ns), True
                left.setdefault((thread["tgid"], thread[start]), []).append((ns, thread))
            continue
        old = earlier(thread)
        if old or "folded" in exit or start_ns <= exit["started_monotonic_ns"] < end_ns:
            yield thread, old if "folded" in exit else since(thread, old, ns), True
        if old:
            del before[thread["tgid"], thread["tid"]]
        if old and "replaced_by" in exit:
            other = before.pop((thread["tgid"], exit["replaced_by"]), {})
            before[thread["tgid"], thread["tid"]] = {**other, start: thread[start]}
    for id, thread in before.items():
        if "pcomm" in thread and after.get(id, {}).get(start) != thread.get(start):
            yield {**thread, "lost": True}, thread, True
    for thread in after.values():
        old = earlier(thread)
        if old or thread[start] >= first["capture"]["boottime_ns"] // 10_000_000:
            exited = thread.get("state") in ("Z", "X") and old.get("state") not in ("Z", "X")
            zombie_ns = end_ns + thread.get("read_at_ns", 0) - thread.get("exited_monotonic_ns", float("inf"))
            yield thread, since(thread, old), exited and zombie_ns < 10_000_000


def main(file, since="0", until="inf"):
    data = open(file, "rb").read()
    first, *steps = documents(data)
    if "series" in first:
        begin_ns, since_ns, place = first["capture"]["boottime_ns"], [float(since) * 1e9, float(until) * 1e9], 0
        while (place := data.find(CAPTURE_FOLLOWS, place + 1)) > 0:
            if int.from_bytes(data[place + 8 : place + 16], "little") <= begin_ns + since_ns[0]:
                first, *steps = documents(data[place:])
        *captures, waits = part(first, steps, begin_ns, since_ns)
        all = lives(*captures)
    else:
        waits = [times(first, {})]
        all = [(thread, {}, thread.get("exited", False) and "zombie_ns" not in thread) for thread in threads(first)]
    sums = {}

    def of(name):
        return sums.setdefault(name, {**dict.fromkeys(METRICS + ["threads", "exited"], 0), "waits": {}})

    lost, known = set(), set()
    for thread, old, exited in all:
        (lost if thread.get("lost") else known).add((thread["tgid"], thread["comm"]))
        sum = of(thread["pcomm"])
        for name in METRICS:
            if thread.get(name) is not None and old.get(name, 0) is not None:
                sum[name] += max(0, thread[name] - old.get(name, 0))
        sum["exited" if exited else "threads"] += thread.get("count", 1)
    for names, reasons in [(json.loads(names), reasons) for step in waits for names, reasons in step.items()]:
        for reason, ns, _ in reasons if (names.get("tgid"), names["comm"]) not in lost - known else []:
            sum = of(names["pcomm"])["waits"]
            sum[reason["class"]] = sum.get(reason["class"], 0) + ns
    print(json.dumps(sums))


main(*sys.argv[1:])

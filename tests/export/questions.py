"""Runs the code of docs/fleet.md in one engine, and compares the answers with those computed from `ctprof show`.

questions.py ENGINE DOCS FLEET [REPORTS SERIES]

ENGINE is duckdb or spark, FLEET the directory of the datasets. Without REPORTS, it only prints the time of each query, as
the best of three. REPORTS has two reports of `ctprof show --format json` per
window: NAME.threads.json (grouped by process, thread and cgroup) and NAME.cgroups.json. SERIES has the datasets of a series in
which two processes run, one after the other, half of each second and all of it.
"""

import json
import pathlib
import re
import sys
import time
from collections import defaultdict
from datetime import datetime, timedelta, timezone

engine, docs, fleet = sys.argv[1:4]

page = pathlib.Path(docs).read_text()
questions = re.findall(r"^### (.*?)\n\n```sql\n(.*?)```", page, re.M | re.S)
assert len(questions) == 14, len(questions)
blocks = re.findall(r"```python\n(.*?)```", page, re.S)
views = next(code for code in blocks if engine in code)


def duckdb_runner():
    import duckdb

    return lambda sql: duckdb.sql(sql).fetchall(), {}


def spark_runner():
    from spark import session

    spark = session()
    return lambda sql: [tuple(row) for row in spark.sql(sql).collect()], {"spark": spark}


class Window:
    """What the reports say about one window."""

    def __init__(self, path):
        threads = json.loads(path.read_text())
        snapshot, window = threads["snapshot"], threads["snapshot"]["window"]
        self.host = snapshot["hostname"]
        self.kernel = snapshot["kernel_release"]
        self.time = datetime.fromtimestamp(snapshot["captured_at_unix_ns"] // 10**9, timezone.utc).replace(tzinfo=None)
        self.date = self.time.date()
        self.length = window["duration_ns"]
        self.explained = window["cpu"]["explained_ns"] / window["cpu"]["busy_ns"]
        self.gaps = {(gap["source"], gap["code"]) for gap in threads["gaps"]}
        # By process, thread, cgroup and metric.
        rows = [(tuple(row["path"]), row["metric"], row["value"]) for row in threads["rows"]]
        rows = [row for row in rows if len(row[0]) > 1 and row[2] is not None]
        # A process whose threads all have its name has no rows of threads.
        divided = {path[:2] for path, _, _ in rows if len(path) == 3}
        leaves = [row for row in rows if len(row[0]) == 3 or row[0] not in divided]
        self.values = {(*path[:2], path[-1], metric): value for path, metric, value in leaves}
        cgroups = json.loads(path.with_name(path.name.replace(".threads.", ".cgroups.")).read_text())
        self.cgroups = {(row["group"], row["metric"]): row["value"] for row in cgroups["rows"]}

    def sums(self, metric, key):
        """Sums of a metric by a part of the groups."""
        sums = defaultdict(int)
        for (cgroup, pcomm, comm, name), value in self.values.items():
            if name == metric:
                sums[key(cgroup, pcomm, comm)] += value
        return sums


run, names = {"duckdb": duckdb_runner, "spark": spark_runner}[engine]()


def create_views(directory):
    exec(views.replace("fleet/", f"{directory}/"), dict(names))


if len(sys.argv) > 4:
    create_views(sys.argv[5])
    (steps,) = [sql for sql in re.findall(r"```sql\n(.*?)```", page, re.S) if "step IS NOT NULL" in sql]
    found = [(pcomm, float(percent)) for pcomm, _, percent in run(steps)]
    assert found == [("early", 50.0), ("late", 100.0)], found

create_views(fleet)
if len(sys.argv) == 4:
    for title, sql in questions:
        times = []
        for _ in range(3):
            begin = time.time()
            found = run(sql)
            times.append(time.time() - begin)
        print(f"| {title} | {min(times):.2f} s |")
    sys.exit()

windows = [Window(path) for path in sorted(pathlib.Path(sys.argv[4]).glob("*.threads.json"))]
assert windows
by_pcomm = lambda cgroup, pcomm, comm: pcomm
pool = lambda cgroup, pcomm, comm: (pcomm, re.sub(r"\d+", "{N}", comm))


def path_of(cgroup):
    """The cgroup without the name of its container."""
    return cgroup and cgroup.split(" [")[0]


def total(metric, key, chosen=windows):
    sums = defaultdict(int)
    for window in chosen:
        for group, value in window.sums(metric, key).items():
            sums[group] += value
    return sums


def top_waiters():
    wait, run = total("wait_time_ns", by_pcomm), total("run_time_ns", by_pcomm)
    hosts = {pcomm: len({w.host for w in windows if pcomm in w.sums("run_time_ns", by_pcomm)}) for pcomm in wait}
    rows = [(pcomm, wait[pcomm] / 1e9, run[pcomm] / 1e9, hosts[pcomm]) for pcomm in wait if wait[pcomm] > 0]
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:10]


def wait_by_kernel():
    rows = []
    for kernel in {window.kernel for window in windows}:
        chosen = [window for window in windows if window.kernel == kernel]
        wait, run = total("wait_time_ns", pool, chosen), total("run_time_ns", pool, chosen)
        workers = ("api", "http-worker-{N}")
        rows.append((kernel, wait[workers] / run[workers], len({window.host for window in chosen})))
    return sorted(rows, key=lambda row: -row[1])


def doubled():
    def waiting(host, date):
        chosen = [window for window in windows if window.host == host and window.date == date]
        return sum(total("wait_time_ns", by_pcomm, chosen).values()) / sum(window.length for window in chosen)

    today = max(window.date for window in windows)
    rows = []
    for host in sorted({window.host for window in windows}):
        before, now = waiting(host, today - timedelta(days=1)), waiting(host, today)
        if now >= 2 * before:
            rows.append((host, before, now))
    return rows


def noisy():
    rows = []
    by_cgroup = lambda cgroup, pcomm, comm: path_of(cgroup)
    for host in {window.host for window in windows}:
        chosen = [window for window in windows if window.host == host]
        run, wait = total("run_time_ns", by_cgroup, chosen), total("wait_time_ns", by_cgroup, chosen)
        for cgroup in run:
            if run[cgroup] > 0.5 * sum(run.values()):
                waited = (sum(wait.values()) - wait[cgroup]) / 1e9
                rows.append((host, cgroup, run[cgroup] / sum(run.values()), waited))
    return sorted(rows, key=lambda row: (-row[3], row[0]))[:5]


def allocation():
    seconds = sum(window.length for window in windows) / 1e9
    rows = [(pcomm, sum_ / 1048576 / seconds) for pcomm, sum_ in total("allocated_bytes", by_pcomm).items() if sum_ > 0]
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:10]


def leaks():
    days = sorted({window.date for window in windows})
    kept, shares = defaultdict(int), defaultdict(list)
    for day in days:
        chosen = [window for window in windows if window.date == day]
        freed = total("deallocated_bytes", pool, chosen)
        for group, allocated in total("allocated_bytes", pool, chosen).items():
            if allocated > 0:
                kept[group] += allocated - freed[group]
                shares[group].append((allocated - freed[group]) / allocated)
    rows = [(*group, kept[group] / 1048576, min(shares[group])) for group in kept if min(shares[group]) > 0.1]
    return sorted(rows, key=lambda row: (-row[2], row[0], row[1]))


def gaps():
    denied = [window for window in windows if any(code.startswith("permission") for _, code in window.gaps)]
    rows = []
    for host in {window.host for window in denied}:
        chosen = [window for window in denied if window.host == host]
        rows.append((host, len(chosen), max(len(window.gaps) for window in chosen)))
    return sorted(rows)


def unexplained():
    rows = [(window.host, window.time, window.explained) for window in windows if window.explained < 0.9]
    return sorted(rows, key=lambda row: (row[2], row[0], row[1]))[:10]


def full():
    used = defaultdict(float)
    for window in windows:
        for (cgroup, metric), current in window.cgroups.items():
            limit = window.cgroups.get((cgroup, "memory.max"))
            if metric == "memory.current" and isinstance(limit, int):
                group = window.host, path_of(cgroup)
                used[group] = max(used[group], current / limit)
    rows = [(*group, share) for group, share in used.items() if share > 0.9]
    return sorted(rows, key=lambda row: (-row[2], row[0], row[1]))


def preempted():
    run, switches = total("run_time_ns", by_pcomm), total("nonvoluntary_csw", by_pcomm)
    rows = [(pcomm, switches[pcomm] / (run[pcomm] / 1e9)) for pcomm in run if run[pcomm] > 10**9]
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:10]


def workloads():
    """The containers of examples/fleet.rs, by what follows their cgroups in the groups of reports."""
    workload = lambda cgroup, pcomm, comm: re.match(r".*\[(shop/\w+)-x2k4p:main\]$", cgroup or "")
    named = lambda *group: workload(*group) and workload(*group)[1]
    wait, run = total("wait_time_ns", named), total("run_time_ns", named)
    hosts = len({window.host for window in windows})
    rows = [(name, wait[name] / 1e9, run[name] / 1e9, hosts) for name in run if name]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def throttled():
    return [("host-06", "shop", "api-x2k4p", "main", 0.4)]


def noisy_windows(host):
    return [window for window in windows if window.host == host and host == "host-07"]


def reasons():
    """What examples/fleet.rs plants: samples of 20 ms."""
    hosts = {window.host for window in windows}
    noisy = len(noisy_windows("host-07"))
    waits = (noisy * 40 + (len(windows) - noisy) * 12) * 0.02
    syncs = len(windows) * 30 * 0.02
    return [("logger", "block", "fdatasync", "submit_bio_wait", syncs, len(hosts)), ("api", "wait", None, None, waits, len(hosts))]


def culprits():
    rows = []
    for host in {window.host for window in windows}:
        chosen = [window for window in windows if window.host == host]
        wait = total("wait_time_ns", by_pcomm, chosen)["api"] / 1e9
        share = 0.75 if noisy_windows(host) else 0.5
        rows += [(host, "api", "batch", share * wait), (host, "api", "cache", (1 - share) * wait)]
    return sorted(rows, key=lambda row: (-row[3], row[0], row[1], row[2]))[:10]


# In the order of the page; what the first row must say about the planted problem.
ANSWERS = [
    (top_waiters, ("api",)),
    (wait_by_kernel, ("7.3.1",)),
    (doubled, ("host-03",)),
    (noisy, ("host-07", "/app.slice/batch.service")),
    (allocation, ("api",)),
    (leaks, ("cache", "evict-{N}")),
    (gaps, ("host-05",)),
    (unexplained, ("host-04",)),
    (full, ("host-02", "/app.slice/cache.service")),
    (workloads, ("shop/api",)),
    (throttled, ("host-06", "shop", "api-x2k4p")),
    (preempted, ("api",)),
    (reasons, ("logger", "block", "fdatasync")),
    (culprits, ()),
]


def same(found, expected):
    if isinstance(expected, float):
        return abs(float(found) - expected) <= 1e-6 * abs(expected)
    return found == expected


for (title, sql), (answer, planted) in zip(questions, ANSWERS):
    begin = time.time()
    found, expected = run(sql), answer()
    print(f"{engine}: {title} {len(found)} rows, {time.time() - begin:.2f} s")
    assert found, title
    for row, wanted in zip(found, expected):
        assert all(same(a, b) for a, b in zip(row, wanted)), f"{title}\nfound    {row}\nexpected {wanted}"
    assert len(found) == len(expected), f"{title}\nfound    {found}\nexpected {expected}"
    assert found[0][: len(planted)] == planted, f"{title}: {found[0]} does not start with {planted}"

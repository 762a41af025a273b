"""Compares sums by (host, hour, process) in one engine with what `ctprof show --format json` says about each capture.

truth.py ENGINE FLEET REPORTS [OLD]

ENGINE is duckdb, spark, polars or pyarrow, FLEET the directory of the datasets, REPORTS has a report per capture. OLD is the same by
ctprof 0.3, whose rows are asked for together with those of FLEET by the view in docs/fleet.md.
"""

import glob
import json
import pathlib
import re
import sys
from collections import defaultdict
from datetime import datetime, timezone

engine, fleet, reports = sys.argv[1:4]
METRICS = ["run_time_ns", "wait_time_ns"]
threads = glob.glob(f"{fleet}/threads/*/*.parquet")


def duckdb_sums():
    import duckdb

    source = f"read_parquet('{fleet}/threads/*/*.parquet', hive_partitioning = true, hive_types = {{'date': DATE}}, union_by_name = true)"
    if len(sys.argv) > 4:
        page = pathlib.Path("docs/fleet.md").read_text()
        (view,) = [code for code in re.findall(r"```python\n(.*?)```", page, re.S) if "fleet-0.3" in code]
        exec(view.replace("fleet/", f"{fleet}/").replace("fleet-0.3/", f"{sys.argv[4]}/"))
        source = "threads"
    sums = ", ".join(f"CAST(sum(weight * {metric}) AS BIGINT)" for metric in METRICS)
    return duckdb.sql(f"SELECT host, date_trunc('hour', time), pcomm, {sums} FROM {source} GROUP BY 1, 2, 3").fetchall()


def spark_sums():
    from spark import session

    spark = session()
    spark.read.option("mergeSchema", "true").parquet(f"{fleet}/threads").createOrReplaceTempView("threads")
    sums = ", ".join(f"CAST(sum(weight * {metric}) AS BIGINT)" for metric in METRICS)
    rows = spark.sql(f"SELECT host, date_trunc('hour', time), pcomm, {sums} FROM threads GROUP BY 1, 2, 3").collect()
    return [tuple(row) for row in rows]


def python_sums(rows):
    sums = defaultdict(lambda: [None] * len(METRICS))
    for host, time, pcomm, *values in rows:
        group = sums[host, time.replace(minute=0, second=0, microsecond=0), pcomm]
        for at, value in enumerate(values):
            if value is not None:
                group[at] = (group[at] or 0) + value
    return [(*group, *values) for group, values in sums.items()]


def polars_sums():
    import polars

    return python_sums(polars.read_parquet(threads).select("host", "time", "pcomm", *METRICS).rows())


def pyarrow_sums():
    import pyarrow.dataset

    columns = ["host", "time", "pcomm", *METRICS]
    table = pyarrow.dataset.dataset(f"{fleet}/threads", partitioning="hive").to_table(columns=columns)
    return python_sums(zip(*[table[column].to_pylist() for column in columns]))


expected = defaultdict(lambda: [None] * len(METRICS))
for path in pathlib.Path(reports).glob("*.json"):
    report = json.loads(path.read_text())
    captured = datetime.fromtimestamp(report["snapshot"]["captured_at_unix_ns"] // 10**9, timezone.utc)
    hour = captured.replace(minute=0, second=0, microsecond=0, tzinfo=None)
    for row in report["rows"]:
        if len(row["path"]) == 1 and row["metric"] in METRICS and row["value"] is not None:
            group = expected[report["snapshot"]["hostname"], hour, row["path"][0]]
            at = METRICS.index(row["metric"])
            group[at] = (group[at] or 0) + row["value"]

found = {tuple(row[:3]): list(row[3:]) for row in globals()[f"{engine}_sums"]()}
missing = {group for group, values in found.items() if values == [None] * len(METRICS)}
for group in found.keys() | expected.keys():
    if group not in missing:
        assert found.get(group) == expected.get(group), f"{group}: found {found.get(group)}, expected {expected.get(group)}"
hosts, names = {group[0] for group in found}, {group[2] for group in found}
print(f"{engine}: {len(found)} groups, {len(missing)} without a value, hosts {sorted(map(repr, hosts))}")
for name in ["007", "1e5", "NULL", "a=b", "../x", "2026-11-21"]:
    assert name in hosts and name in names, f"{name} is in {hosts} and {names}"
assert missing, "a process of which nothing was measured has NULL, never 0"

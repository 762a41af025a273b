"""Rewrites the days of a fleet with the code of docs/fleet.md, and compares sums before and after, and the rollup with them.

compaction.py ENGINE FLEET

ENGINE is duckdb, spark or pyiceberg. The latter takes the files as they are.
"""

import glob
import os
import pathlib
import re
import sys

engine, fleet = sys.argv[1:3]
page = pathlib.Path("docs/fleet.md").read_text()
DATASETS = ["threads", "cgroups", "reasons", "captures"]
ORDERS = {"threads": "host, time, pcomm, comm_pattern", "cgroups": "host, time, cgroup", "captures": "host, time"}
ORDERS["reasons"] = ORDERS["threads"]
files = {dataset: glob.glob(f"{fleet}/{dataset}/*/*.parquet") for dataset in DATASETS}
assert all(len(found) > 1 for found in files.values()), files


def sums():
    """What files have, read without the engine that rewrites them if there is another one."""
    import duckdb

    found = []
    for dataset, value in [("threads", "run_time_ns"), ("cgroups", "cpu_usage_usec"), ("reasons", "sampled_ns"), ("captures", "window_ns")]:
        of = f"read_parquet('{fleet}/{dataset}/*/*.parquet', union_by_name = true, hive_partitioning = true, hive_types = {{'date': DATE}})"
        # Sums of hashes differ if a single row does.
        found.append(duckdb.sql(f"SELECT date, count(*), count(weight), sum({value}), sum(hash(capture_id, host, time)) FROM {of} GROUP BY date ORDER BY date").fetchall())
    return found


def days():
    return sorted({pathlib.Path(path).parent.name.split("=")[1] for path in files["threads"]})


def code(language_mark):
    """The definition of `compact` without its calls."""
    (block,) = [b for b in re.findall(r"```python\n(.*?)```", page, re.S) if "def compact" in b and language_mark in b]
    return block.split("\ncompact(")[0].replace("fleet/", f"{fleet}/")


rollup = re.search(r"## Rollup\n.*?```sql\n(.*?)```", page, re.S)[1]


def views(mark):
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    return next(b for b in blocks if mark in b and "threads" in b).replace("fleet/", f"{fleet}/")


def check_rollup(run):
    total = f"SELECT CAST(sum(weight * run_time_ns) AS BIGINT), CAST(sum(weight * wait_time_ns) AS BIGINT) FROM threads"
    rolled = f"SELECT CAST(sum(run_ns) AS BIGINT), CAST(sum(wait_ns) AS BIGINT) FROM ({rollup}) AS rollup"
    assert run(total) == run(rolled), f"{run(total)} and {run(rolled)}"
    blocked = "SELECT CAST(sum(weight * sampled_ns) AS BIGINT) FROM reasons WHERE class = 'block'"
    rolled = f"SELECT CAST(sum(sampled_block_ns) AS BIGINT) FROM ({rollup}) AS rollup"
    assert run(blocked) == run(rolled), f"{run(blocked)} and {run(rolled)}"


def duckdb_compaction():
    import duckdb

    scope = {}
    exec(views("import duckdb"), {})
    check_rollup(lambda sql: duckdb.sql(sql).fetchall())
    exec(code("COPY (SELECT"), scope)
    for dataset, order in ORDERS.items():
        for day in days():
            scope["compact"](dataset, day, order)


def spark_compaction():
    from spark import session

    spark = session()
    scope = {"spark": spark}
    exec(views("createOrReplaceTempView"), scope)
    check_rollup(lambda sql: [tuple(row) for row in spark.sql(sql).collect()])
    exec(code("repartitionByRange"), scope)
    for dataset, order in ORDERS.items():
        for day in days():
            scope["compact"](dataset, day, order.split(", "), 1)


def pyiceberg_compaction():
    """No compaction: a table takes the files, and has the same rows."""
    import pyarrow.parquet
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("c", uri=f"sqlite:///{fleet}/catalog.db", warehouse=f"file://{fleet}/warehouse")
    catalog.create_namespace("fleet")
    for dataset in DATASETS:
        rows = [pyarrow.parquet.read_table(path, partitioning=None) for path in files[dataset]]
        table = catalog.create_table(f"fleet.{dataset}", schema=rows[0].schema)
        table.add_files([f"file://{path}" for path in files[dataset]])
        scanned = table.scan().to_arrow()
        assert scanned.num_rows == sum(part.num_rows for part in rows)
        ids = sorted(id for part in rows for id in part["capture_id"].to_pylist())
        assert sorted(scanned["capture_id"].to_pylist()) == ids


before = sums() if engine != "pyiceberg" else None
globals()[f"{engine}_compaction"]()
if before:
    after = sums()
    assert before == after, f"{before}\n{after}"
    left = {dataset: len(glob.glob(f"{fleet}/{dataset}/*/*.parquet")) for dataset in DATASETS}
    assert set(left.values()) == {len(days())}, left
    assert not glob.glob(f"{fleet}/*/*/.compacting"), "nothing else is left"
print(f"{engine}: {sum(map(len, files.values()))} files")

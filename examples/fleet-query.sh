#!/bin/bash
# On which hosts of a fleet does the service `api` wait twice as long as on the day before?
#
# In a checkout: examples/fleet-query.sh
#
# Needs DuckDB, as a program or as a package of $PYTHON.
set -eu
python=${PYTHON:-python3}
if command -v duckdb >/dev/null; then
    ask() { duckdb -c "$1"; }
elif "$python" -c 'import duckdb' 2>/dev/null; then
    ask() { "$python" -c 'import duckdb, sys; print(duckdb.sql(sys.argv[1]))' "$1"; }
else
    echo "neither the program duckdb nor $python has DuckDB. Fix: python3 -m venv /tmp/duckdb && /tmp/duckdb/bin/pip install duckdb, and PYTHON=/tmp/duckdb/bin/python" >&2
    exit 1
fi

# ctprof: that of $CTPROF, an installed one, or this checkout's.
ctprof=${CTPROF:-$(command -v ctprof || echo target/release/ctprof)}
[ -x "$ctprof" ] || cargo build --release

# Windows of twelve hosts on two days, made of a snapshot of this one. Real ones: `ctprof record --at /10s -d 10s -o FILE`.
fleet=${FLEET:-target/debug/examples/fleet}
[ -x "$fleet" ] || cargo build --example fleet
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
trap 'exit 130' INT
"$ctprof" capture --quiet -o "$work/this-host.ctprof.zst"
"$fleet" "$work/this-host.ctprof.zst" "$work/windows"

# Export them as Parquet, which any engine reads, and ask.
"$ctprof" export "$work/windows" -o "$work/fleet/"
ask "
WITH waits AS (SELECT host, date, round(sum(wait_time_ns) / 1e9, 1) AS wait_s
               FROM read_parquet('$work/fleet/threads/*/*.parquet', hive_partitioning = true)
               WHERE pcomm = 'api' GROUP BY host, date)
SELECT later.host, earlier.wait_s AS yesterday_s, later.wait_s AS today_s
FROM waits later JOIN waits earlier ON earlier.host = later.host AND earlier.date = later.date - INTERVAL 1 DAY
WHERE later.wait_s >= 2 * earlier.wait_s
ORDER BY later.host"

# It prints:
#
# 72 windows
# Exported 72 captures, 7200 rows of threads: 8 files, 383595 bytes in /tmp/tmp.8owQTg3HRb/fleet/
#   threads, cgroups, reasons and captures
# ┌─────────┬─────────────┬─────────┐
# │  host   │ yesterday_s │ today_s │
# │ varchar │   double    │ double  │
# ├─────────┼─────────────┼─────────┤
# │ host-03 │         2.9 │     7.2 │
# └─────────┴─────────────┴─────────┘
#
# The threads of `api` waited for a CPU for 7.2 s on host-03, and for 2.9 s on the day before, in windows of the same length. On
# the eleven other hosts, they waited less than twice as long. Now record host-03: its reasons say which program ran instead.
# docs/fleet.md has more questions, and every column.

#!/bin/bash
# Somebody made a build step slower. Does CI notice, and does it say why?
#
# In a checkout: cargo build --release && sudo examples/regression.sh
#
# Without BPF (root, or cap_bpf and cap_perfmon), the time of gzip is that of its parent, sh.
set -eu

# ctprof: that of $CTPROF, an installed one, or this checkout's.
ctprof=${CTPROF:-$(command -v ctprof || echo target/release/ctprof)}
[ -x "$ctprof" ] || cargo build --release

# The step sorts a file and packs it. The new version packs it as small as gzip can.
data=$(mktemp)
trap 'rm "$data"' EXIT
trap 'exit 130' INT
seq 300000 >"$data"
old="sort $data; gzip -1 -c $data"
new="sort $data; gzip -9 -c $data"

# Run both in turn, and fail if the new one takes over 10% more CPU time.
status=0
"$ctprof" ab --runs "${RUNS:-10}" "$old" "$new" --fail-on 'run>10%' || status=$?
echo "exit status $status"

# A CI job ends with this status. Here, a failed gate is what was expected.
[ "$status" = 3 ]

# It prints, on two CPUs:
#
# ctprof: 10 runs of each command. If runs vary by 5%, 4 of 5 comparisons find that a rise of 12% is above 5%
# baseline   10 runs on vm, median 62.5 ms (58.4 ms to 80.7 ms)
# command    sh -c sort /tmp/tmp.xwXnX4Zu72; gzip -1 -c /tmp/tmp.xwXnX4Zu72
# candidate  10 runs on vm, median 112 ms (106 ms to 129 ms)
# command    sh -c sort /tmp/tmp.xwXnX4Zu72; gzip -9 -c /tmp/tmp.xwXnX4Zu72
# host       no differences
# elapsed    62.5ms → 112ms (+79.3%, 95% interval +55.0..+95.8%)  worse
#            values are totals of each run, of the command and its descendants (all threads: --scope
#            host)
# verdicts   against ±5%, by 95% intervals of the ratio of paired runs (--long shows them)
#
# group    threads              run         usr             wait           sleep  verdict
# gzip   0 (+1 −1)  17.4ms → 63.5ms  - → 63.5ms    543µs → 756µs             0ns  run: 265.4% worse
# sh     0 (+1 −1)  2.80ms → 2.78ms           -  2.23ms → 2.22ms  66.6ms → 114ms  sleep: 70.6% worse
#   why   sleep +47.8ms: wait4 in [dash] +47.8ms
# sort   0 (+2 −2)  54.1ms → 54.2ms           -  14.0ms → 16.2ms  916µs → 1.71ms  run: same (+1.0%)
# zero everywhere: sys, read, write; not available: block, alloc (ctprof doctor on the host); hidden
# (terminal too narrow): csw, faults; every metric: --long
# 1 gate failed
# ctprof: gate failed: all groups run: 74.5ms → 121ms (+62.7%, 95% interval +59.6..+66.6%), bound >10%;
# mostly gzip run +46.1ms
# exit status 3
#
# All processes of a run need 121 ms of CPU time instead of 74.5 ms. The bound is a rise of 10%, and the whole interval is above
# it, so the gate fails. The last line says which group is behind it: gzip, while sort is the same. `sh` only waits for longer
# (wait4). The status of ctprof is 3, by which CI knows a failed gate from an error (1).

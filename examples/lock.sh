#!/bin/bash
# A pool of four threads gets little done, although CPUs are idle. What does it wait for?
#
# In a checkout: cargo build --release && cargo build --example convoy && sudo examples/lock.sh
#
# Functions of the program need BPF: root, or cap_bpf and cap_perfmon.
set -eu

# ctprof: that of $CTPROF, an installed one, or this checkout's.
ctprof=${CTPROF:-$(command -v ctprof || echo target/release/ctprof)}
[ -x "$ctprof" ] || cargo build --release

# Each thread of the pool computes for 0.3 ms, takes the lock, and sleeps for 0.5 ms with it.
convoy=${CONVOY:-target/debug/examples/convoy}
[ -x "$convoy" ] || cargo build --example convoy
trap 'kill $!' EXIT
trap 'exit 130' INT
"$convoy" &

# Record the host for some seconds, and show only the pool.
"$ctprof" record --quiet -d "${DURATION:-5s}" --only convoy

# It prints, on two CPUs:
#
# window     5.01 s from 14:31:01 UTC on vm, 2 CPUs, 161 threads in 99 processes (410 started, 405
#            exited); 9.98 of 9.97 CPU-seconds accounted for (100%); sampled 15.6 times a second
#
# group   threads  run  usr   sys  wait  sleep  csw/s  faults/s  read/s  write/s      rss
# convoy        5  43%  42%  0.6%   26%   431%  3.29K         0      0B       0B  2.07MiB
#   why   sleep 431%: futex in convoy::append ← convoy::work 271%, clock_nanosleep in convoy::append
#         ← convoy::work 63%
#         wait 26%: itself ran 15%
# not available: block, alloc (ctprof doctor on the host); every metric: --long
#
# The four threads together ran for 43% of one CPU, and two were there. For 271%, they waited in `append` for a lock (futex): most
# of the time, nearly three of them. For 63%, a thread slept in `append` (clock_nanosleep): the one that had the lock, because the
# others wait before that line. The rest of `sleep` is the main thread. The fix is to do the slow write without the lock.

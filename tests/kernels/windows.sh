#!/bin/busybox sh
# windows.sh OUT: runs in the guest. Records windows, and beside each what the kernel itself counts: NAME.outer
# holds values from before and after ctprof, NAME.inner values from within the window. See windows.py.
out=$1
disk=/dev/nvme0n1
cg=/sys/fs/cgroup
cd "$out" || exit 1

# A storm of processes that are too short for either capture.
cat /proc/schedstat >storm.outer
/ctprof -q record -f json -n 0 -- sh -c '
    now() { read -r line </proc/$PPID/stat; echo "$line" >>storm.ctprof; cat /proc/schedstat >>storm.inner; }
    now; i=0; while [ $i -lt 1000 ]; do /bin/true; (:); i=$((i + 1)); done; now' 2>storm.json
echo $? >>status
cat /proc/schedstat >>storm.outer

# A process, and a process with several threads, of known CPU time: children of a shell of its own name.
for engine in bpf procfs; do
    /ctprof -q record --engine $engine -o exits-$engine.ctprof.zst -- ash -c '
        self() { read -r line </proc/$$/stat; echo "$line" >>exits-$0.inner; }
        self; awk "BEGIN { for (i = 0; i < 1000000; i++) x += i }"; self
        /neighbor noise & sleep 1; kill -9 $!; wait $! 2>/dev/null; self' $engine 2>/dev/null
    echo $? >>status
done

# Steps of threads that run, sleep, start and exit. All but the last one read what changed.
/ctprof -v record --every 500ms -o series.ctprof.zst -- ash -c '
    /neighbor noise & i=0
    while [ $i -lt 20 ]; do awk "BEGIN { for (i = 0; i < 20000; i++) x += i }"; usleep 100000; i=$((i + 1)); done
    kill -9 $!; wait $! 2>/dev/null; exit 0' 2>series.log
echo $? >>status

# Two captures without a listener: only the shell in between knows what its children did.
mkfifo /tmp/go /tmp/done
ash -c '
    self() { read -r line </proc/$$/stat; echo "$line" >>children.inner; }
    read -r _ </tmp/go; self
    i=0; while [ $i -lt 40 ]; do awk "BEGIN { for (i = 0; i < 20000; i++) x += i }"; i=$((i + 1)); done
    self; echo >/tmp/done; read -r _ </tmp/go' &
/ctprof -q capture -o children-a.ctprof.zst; echo $? >>status
echo >/tmp/go; read -r _ </tmp/done
/ctprof -q capture -o children-b.ctprof.zst; echo $? >>status
echo >/tmp/go; wait $!

# blocked NAME: a window of dd, while /proc says how long it has been blocked.
blocked() {
    dd if=/dev/zero of=$disk bs=4k oflag=direct 2>/dev/null &
    usleep 300000
    cat /proc/$!/sched /proc/$!/stat >"$1.outer"
    /ctprof -q record -f json -n 0 -- sh -c '
        cat "$1"/sched "$1"/stat >"$0.inner"; sleep 1; cat "$1"/sched "$1"/stat >>"$0.inner"; exit' \
        "$1" /proc/$! 2>"$1.json"
    echo $? >>status
    cat /proc/$!/sched /proc/$!/stat >>"$1.outer"
    kill $!; wait $! 2>/dev/null
}
echo 1 >/proc/sys/kernel/sched_schedstats
blocked block_schedstat
echo 0 >/proc/sys/kernel/sched_schedstats
[ ! -e /proc/sys/kernel/task_delayacct ] || echo 1 >/proc/sys/kernel/task_delayacct
blocked block_delays

# The wall clock goes back by an hour.
(sleep 1; date -s "@$(($(date +%s) - 3600))" >/dev/null) &
/ctprof -q record -d 2 -o clock.ctprof.zst; echo $? >>status
wait $!; date -s "@$(($(date +%s) + 3600))" >/dev/null

# limited CGROUP COMMAND...: runs the command in a cgroup.
limited() { (echo 0 >$cg/"$1"/cgroup.procs; shift; exec "$@") 2>/dev/null; }
mkdir $cg/throttled $cg/small
echo 20000 100000 >$cg/throttled/cpu.max
echo 16M >$cg/small/memory.max
# Only cgroups with a process are captured.
limited throttled sleep 1000 & limited small sleep 1000 &
# The window begins with totals that are not zero.
limited throttled timeout 1 dd if=/dev/zero of=/dev/null bs=64k
limited small dd if=$disk of=/dev/null bs=1M count=32
counters() { (cd $cg && for file in throttled/cpu.stat small/cpu.stat small/memory.stat small/memory.events; do
    sed "s|^|/$file |" $file; done) >>cgroups.outer; }
sleep 1; counters
/ctprof -q record -o cgroups.ctprof.zst -- sh -c '
    (echo 0 >'$cg'/throttled/cgroup.procs; timeout 1 dd if=/dev/zero of=/dev/null bs=64k)
    (echo 0 >'$cg'/small/cgroup.procs; dd if='$disk' of=/dev/null bs=1M count=32)
    sleep 1; exit' 2>/dev/null
echo $? >>status
counters

# What a user sees of a limit: a window of what runs.
limited throttled timeout 60 dd if=/dev/zero of=/dev/null bs=64k & usleep 500000
/ctprof -q record -d 2 -o screen-throttled.ctprof.zst; echo $? >>status
killall dd
limited small timeout 60 cat $disk $disk $disk $disk $disk $disk $disk $disk $disk $disk >/dev/null & usleep 500000
/ctprof -q record -d 2 -o screen-small.ctprof.zst; echo $? >>status
killall cat

# Where in its code a process sleeps, in a window and on the full screen.
/neighbor half &
/ctprof -q record -d 5 -o stacks.ctprof.zst; echo $? >>status
mkdir -p /dev/pts; mount -t devpts devpts /dev/pts
(sleep 5; echo q) | TERM=xterm /script -qec '/ctprof top' top.screen >/dev/null; echo $? >>status
killall neighbor

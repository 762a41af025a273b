#!/bin/busybox sh
# engines.sh OUT [NAME]: runs in the guest. Captures threads by procfs, by BPF and by procfs again, under different
# conditions; with NAME, only under these. See engines.py.
out=$1
disk=/dev/nvme0n1
cg=/sys/fs/cgroup
options=
cd "$out" || exit 1

# captures NAME [COMMAND...]: NAME-before, NAME-bpf and NAME-after. COMMAND runs ctprof for the one between.
captures() {
    name=$1; shift
    for step in before bpf after; do
        case $step in bpf) engine=auto run=$* ;; *) engine=procfs run= ;; esac
        $run /ctprof -q capture --engine $engine $options -o "$name-$step.ctprof.zst" 2>>log
        echo "$name-$step $?" >>status
    done
}

# quiescent COMMAND: a shell that does nothing after the command.
quiescent() { (eval "$1"; read -r _ </tmp/hold) 2>>log & }

# Threads that differ in what the engines have to agree on.
threads() {
    mkfifo /tmp/hold /tmp/full; exec 8<>/tmp/hold 7<>/tmp/full
    (echo 0 >$cg/engines/inner/cgroup.procs; exec /load "$1" "$2" </tmp/hold >/dev/null) &
    quiescent 'printf "a) S 1 \377 (b" >/proc/self/comm'
    quiescent 'for i in 1 2 3; do dd if=/dev/zero of=/dev/null bs=1M count=100; done'
    quiescent "echo written >$disk"
    usleep 500000; mkswap $disk >/dev/null; swapon $disk
    dd if=$disk of=/tmp/full bs=1M count=8 iflag=direct 2>/dev/null &
    # More memory than the cgroup may have: waits for reclaim and for swap.
    (echo 0 >$cg/little/cgroup.procs; exec awk 'BEGIN {
        s = "x"; for (i = 0; i < 22; i++) s = s s; n = length(s s); s = ""; getline <"/tmp/hold" }') &
    (echo 0 >$cg/little/cgroup.procs; exec head -c 33554432 $disk $disk - </tmp/hold >/dev/null) &
    for run in '/chrt -f 10' '/chrt -b 0' '/chrt -i 0' '/nice -n 7' 'taskset 2'; do $run sleep 10000 & done
    # A child that exits, which its parent does not wait for.
    (sleep 1 & exec sleep 10000) &
    /churn & churn=$!
    sleep 3; kill -STOP $churn
    (while :; do /bin/true; done) &
    /churn &
}

end_threads() {
    kill -9 $(jobs -p) 2>/dev/null; killall -q -9 load sleep; wait
    rm /tmp/hold /tmp/full; swapoff $disk
}

switch() {
    [ ! -e /proc/sys/kernel/sched_schedstats ] || echo "$1" >/proc/sys/kernel/sched_schedstats
    [ ! -e /proc/sys/kernel/task_delayacct ] || echo "$1" >/proc/sys/kernel/task_delayacct
}

# histories NAME SWITCH: threads with a history of each kind, in three processes and two cgroups. See history.c.
histories() {
    switch "$2"; mkfifo /tmp/hold; exec 8<>/tmp/hold; pids= number=0
    mkdir -p $cg/history
    for cgroup in $cg/history $cg $cg; do
        number=$((number + 1))
        /history 3 $disk "$cgroup" </tmp/hold >"$1.$number" & pids="$pids $!"
    done
    while [ "$(cat "$1".[0-9]* | grep -c '^ready')" -lt 3 ]; do usleep 100000; done
    captures "$1"
    kill -9 $pids; wait; rm /tmp/hold
}

if [ "$2" = history ]; then
    histories history 1; histories history-disabled 0; switch 1
    exit
fi
if [ "$2" = namespace ]; then
    threads 2 20; captures namespace; end_threads
    exit
fi
chmod 1777 "$out"
switch 1
mkdir -p $cg/engines/inner $cg/little; echo 4M >$cg/little/memory.max
threads 10 50
captures enabled
options="--pid $(pidof load | tr ' ' '\n' | sort -n | tail -n 1)"; captures process; options=
nobody='/setpriv --reuid 65534 --regid 65534 --clear-groups'
capabilities='--inh-caps +bpf,+perfmon --ambient-caps +bpf,+perfmon'
captures nobody $nobody
captures capabilities $nobody $capabilities
$nobody /ctprof -q capture --engine bpf -o refused.ctprof.zst 2>refused.log; echo "refused $?" >>status
(ulimit -l 0; captures memlock; captures memlock-nobody $nobody $capabilities)
switch 0; captures disabled; switch 1
end_threads
unshare --pid --fork --mount-proc sh "$0" "$out" namespace
sh "$0" "$out" history

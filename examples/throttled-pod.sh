#!/bin/bash
# Two pods of a node do the same work, and one is slow. Why?
#
# In a checkout: cargo build --release && sudo examples/throttled-pod.sh
#
# The host needs no Kubernetes: this script makes the cgroups of two pods, and the logs that name them.
set -eu
[ "$(id -u)" = 0 ] || { echo "making cgroups needs root. Fix: sudo $0" >&2; exit 1; }

# ctprof: that of $CTPROF, an installed one, or this checkout's.
ctprof=${CTPROF:-$(command -v ctprof || echo target/release/ctprof)}
[ -x "$ctprof" ] || cargo build --release

# CPU limits are in the tree of version 2, or in a hierarchy of version 1.
tree=/sys/fs/cgroup quota=cpu.max
[ -e $tree/cgroup.controllers ] || { tree=/sys/fs/cgroup/cpu quota=cpu.cfs_quota_us; }
[ -w $tree ] || { echo "$tree cannot be written to. Fix: run this on the host, not in a container" >&2; exit 1; }

directories=() logs=()
clean_up() {
    set +e
    rm -f "${logs[@]}"
    for directory in "${directories[@]}"; do
        # A cgroup is empty some time after its processes were killed.
        for _ in {1..50}; do
            rmdir "$directory" 2>/dev/null
            [ -d "$directory" ] || break
            xargs -r kill <"$directory/cgroup.procs"
            sleep 0.1
        done
    done
}
trap clean_up EXIT
trap 'exit 130' INT

# Makes a directory, unless it exists. The newest will be removed first.
directory() {
    [ -d "$1" ] || { directories=("$1" "${directories[@]}"); mkdir "$1"; }
}

# Starts sha256sum as the container `server` of the pod $1, which may run for $2 µs in each 100 ms.
pod() {
    local uid id name cgroup=$tree
    uid=$(tr - _ </proc/sys/kernel/random/uuid)
    id=$(echo "$uid" | sha256sum | cut -c 1-64)
    for name in kubepods.slice kubepods-burstable.slice "kubepods-burstable-pod$uid.slice" "cri-containerd-$id.scope"; do
        [ $quota != cpu.max ] || echo +cpu >"$cgroup/cgroup.subtree_control"
        cgroup=$cgroup/$name
        directory "$cgroup"
    done
    echo "$2" >"$cgroup/$quota"
    directory /var/log/containers
    logs+=("/var/log/containers/$1_shop_server-$id.log")
    : >"${logs[-1]}"
    sh -c 'echo $$ >"$0/cgroup.procs" && exec sha256sum /dev/zero' "$cgroup" &
}
pod api-7d4b9c6f5d-x2k4p 5000
pod web-5c8d7b6f9d-q7w8z 100000

"$ctprof" record --quiet -d "${DURATION:-5s}" --group-by container --only 'shop/*'

# It prints, on two CPUs:
#
# window     5.00 s from 14:30:42 UTC on vm, 2 CPUs, 148 threads in 96 processes (113 started, 105
#            exited); 9.99 of 10.0 CPU-seconds accounted for (100%)
#
# group            threads   run   usr   sys  wait  sleep  csw/s  faults/s  read/s  write/s      rss
# shop/web:server        1   98%   97%  0.8%  2.3%   0.0%     90         0      0B       0B  1.76MiB
# shop/api:server        1  5.0%  5.0%    0%   95%   0.0%     20         0      0B       0B  1.77MiB
#   why   wait 95%: CPU quota 93%
# not available: block, alloc (ctprof doctor on the host); every metric: --long
#
# The pods are those of the workloads `web` and `api` in the namespace `shop`. The thread of `api` ran for 5% of the time, and was
# ready to run, without a CPU, for 95%. No other program had its CPU: for 93% of the time, its cgroup had used its quota. So a
# faster node changes nothing, and a higher limit does.

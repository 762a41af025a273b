#!/bin/busybox sh
# suspend.sh OUT: runs in the guest. Suspends to memory within a window, until the clock of the machine wakes it.
cd "$1" || exit 1
/ctprof -q record -o suspend.ctprof.zst -- sh -c '
    # The clock that goes on while suspended, and the one that stops, if this machine can stop it.
    clocks() { cat /proc/uptime; grep "^now at" /proc/timer_list; }
    clocks >suspend.outer
    echo +5 >/sys/class/rtc/rtc0/wakealarm && echo mem >/sys/power/state
    clocks >>suspend.outer
    sleep 8' 2>/dev/null

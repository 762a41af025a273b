#!/bin/busybox sh
# suspend.sh OUT: runs in the guest. Suspends to memory within a window, until the clock of the machine wakes it.
cd "$1" || exit 1
/ctprof -q record -d 3 -o suspend.ctprof.zst & sleep 1
cat /proc/uptime >suspend.outer
echo +5 >/sys/class/rtc/rtc0/wakealarm && echo mem >/sys/power/state
cat /proc/uptime >>suspend.outer
wait $!

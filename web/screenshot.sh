#!/usr/bin/env bash
# Makes docs/report.png: a report on redis-server under redis-benchmark, before and after xz takes its CPUs. Prints the
# window with xz, for README.md.
# Needs redis-server, redis-benchmark, xz and Chromium, and best an idle host.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --release
ctprof=$PWD/target/release/ctprof
work=$(mktemp -d)
port=7999
programs=()
trap 'kill "${programs[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT

start() { "$@" >/dev/null 2>&1 & programs+=($!); }

cd "$work"
start redis-server --port "$port" --save '' --appendonly no
sleep 1
start redis-benchmark -p "$port" -n 1000000000 -c 50 -t get,set
sleep 2
"$ctprof" record -d 5s -o before.ctprof.zst
head -c 1G /dev/zero > backup
start xz --threads 2 --keep backup
sleep 1
"$ctprof" record -d 5s -o after.ctprof.zst
# Whatever else runs on the host is left out.
only=(--only redis-server --only redis-benchmark --only xz)
COLUMNS=120 "$ctprof" show after.ctprof.zst "${only[@]}"
"$ctprof" compare before.ctprof.zst after.ctprof.zst --format html "${only[@]}" > report.html

chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
sandbox=()
[ "$(id -u)" != 0 ] || sandbox=(--no-sandbox)
"$chromium" --headless "${sandbox[@]}" --disable-gpu --disable-background-networking --no-first-run \
    --user-data-dir="$work/profile" --hide-scrollbars --window-size=1280,500 \
    --screenshot="$work/report.png" "file://$work/report.html#theme=light" 2>/dev/null
! command -v pngquant >/dev/null || pngquant --force --output "$work/report.png" 64 "$work/report.png"
cp "$work/report.png" "$OLDPWD/docs/report.png"
cp "$work/report.html" "${1:-/dev/null}"

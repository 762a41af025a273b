#!/usr/bin/env bash
# Makes docs/page.png: the HTML page of a comparison of recorded runs, with a failed and an unclear gate. Needs Chromium; pngquant
# makes the picture smaller.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --release
ctprof=$PWD/target/release/ctprof
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd tests/fixtures/runs
status=0
"$ctprof" compare fast slow --fail-on 'run>5%' --fail-on 'elapsed>5%' --format html > "$work/page.html" 2> "$work/messages" || status=$?
# Status 3: a gate failed, as it should.
test "$status" = 3 || { cat "$work/messages" >&2; exit 1; }

chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
sandbox=()
[ "$(id -u)" != 0 ] || sandbox=(--no-sandbox)
"$chromium" --headless "${sandbox[@]}" --disable-gpu --disable-background-networking --no-first-run \
    --user-data-dir="$work/profile" --hide-scrollbars --window-size=1100,880 \
    --screenshot="$work/page.png" "file://$work/page.html#theme=light" 2>/dev/null
! command -v pngquant >/dev/null || pngquant --force --output "$work/page.png" 64 "$work/page.png"
cp "$work/page.png" "$OLDPWD/docs/page.png"

#!/usr/bin/env python3
"""What `ctprof ab` finds in six series, and in what time, beside hyperfine with Welch's test: prints a table of docs/noise.md.

Each case is a program and a changed one, beside a process that computes half of the time (examples/neighbor.rs). Both tools compare the same two
commands, one after the other, in random order. ctprof has one gate, and ends when it is decided; hyperfine makes 20 runs of each, and finds a change
if p < 0.05 for their elapsed times.

    benches/noise/power.py [SERIES]      build, then 6 series of each case: about 20 minutes; needs hyperfine
"""

import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / "target/release"
RUNS = 20

# A program whose work, lock, memory, reads and sleep can be chosen: threads that compute, as `work` does, with all else beside it.
PROGRAM = r"""
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long steps;
static int locked;
static void *run(void *unused) {
    for (long part = 0; part < 100; part++) {
        if (locked) pthread_mutex_lock(&lock);
        for (volatile long i = 0; i < steps / 100; i++) {}
        if (locked) pthread_mutex_unlock(&lock);
    }
    return unused;
}
int main(int argc, char **argv) {
    steps = atol(argv[1]) * 2000000L;
    locked = atoi(argv[2]);
    size_t memory = atol(argv[3]) << 20;
    if (memory) memset(malloc(memory), 1, memory);
    static char bytes[1 << 16];
    for (long i = 0; i < atol(argv[4]); i++) {
        int file = open(argv[6], O_RDONLY);
        while (read(file, bytes, sizeof bytes) > 0) {}
        close(file);
    }
    usleep(atol(argv[5]) * 1000);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, run, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
}
"""
# Work, lock, MiB, reads of a file of 1 MiB, sleep in ms; and the gate that the change concerns.
BASE = (100, 0, 20, 20, 10)
CASES = [
    ("equal", BASE, "run>5%"),
    ("+10% CPU time", (110, 0, 20, 20, 10), "run>5%"),
    ("+30% CPU time", (130, 0, 20, 20, 10), "run>5%"),
    ("+50 ms of sleep", (100, 0, 20, 20, 60), "elapsed>5%"),
    ("a lock is added", (100, 1, 20, 20, 10), "load:sleep>20%"),
    ("+100 MiB", (100, 0, 120, 20, 10), "load:hiwater_rss_bytes>20%"),
    ("twice the reads", (100, 0, 20, 40, 10), "load:rchar>20%"),
]


def main():
    series = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    subprocess.run(["cargo", "build", "--quiet", "--release", "--bins", "--examples"], cwd=ROOT, check=True)
    neighbor = subprocess.Popen([RELEASE / "examples/neighbor", "half"])
    generator = random.Random(1)
    print(f"{os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.1f} before; {series} series of each case:\n")
    print("| change | gate | ctprof: found | median time | hyperfine: found | median time |")
    print("|---|---|---:|---:|---:|---:|")
    try:
        with tempfile.TemporaryDirectory() as directory:
            directory = Path(directory)
            (directory / "load.c").write_text(PROGRAM)
            subprocess.run(["cc", "-O1", "-pthread", "-o", directory / "load", directory / "load.c"], check=True)
            (directory / "file").write_bytes(bytes(1 << 20))
            for name, changed, gate in CASES:
                print(row(name, [command(directory, values) for values in (BASE, changed)], gate, series, generator), flush=True)
    finally:
        neighbor.kill()


def command(directory, values):
    return f"{directory}/load {' '.join(map(str, values))} {directory}/file"


def row(name, commands, gate, series, generator):
    found, times = [0, 0], [[], []]
    for _ in range(series):
        tools = [(0, lambda: ctprof(commands, gate)), (1, lambda: hyperfine(commands))]
        generator.shuffle(tools)
        for place, tool in tools:
            start = time.monotonic()
            found[place] += tool()
            times[place].append(time.monotonic() - start)
    medians = [sorted(each)[len(each) // 2] for each in times]
    cells = [f"{found[place]} of {series} | {medians[place]:.0f} s" for place in (0, 1)]
    return f"| {name} | `{gate}` | {' | '.join(cells)} |"


def ctprof(commands, gate):
    call = [RELEASE / "ctprof", "ab", "-q", *commands, "--fail-on", gate, "--max-runs", str(RUNS)]
    ended = subprocess.run(call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if ended.returncode not in (0, 3):
        sys.exit(ended.stderr)
    return ended.returncode == 3


def hyperfine(commands):
    with tempfile.NamedTemporaryFile() as out:
        call = ["hyperfine", "--shell=none", "--style=none", "--runs", str(RUNS), "--export-json", out.name, *commands]
        subprocess.run(call, check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        baseline, candidate = (result["times"] for result in json.load(out)["results"])
    return welch(baseline, candidate) < 0.05


def welch(first, second):
    """The p-value of Welch's test; of 20 runs, the normal distribution is near enough to Student's."""
    means = [sum(each) / len(each) for each in (first, second)]
    errors = [sum((x - mean) ** 2 for x in each) / (len(each) - 1) / len(each) for each, mean in zip((first, second), means)]
    return math.erfc(abs(means[0] - means[1]) / math.sqrt(2 * sum(errors))) if sum(errors) else 1.0


if __name__ == "__main__":
    main()

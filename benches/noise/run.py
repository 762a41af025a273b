#!/usr/bin/env python3
"""How reliable verdicts are on a noisy machine: prints the tables of docs/noise.md.

Records runs of small programs (examples/work.rs) while another process uses one CPU half of the time
(examples/neighbor.rs), draws many pairs of sides from these runs, compares each pair, and counts the verdicts.
Everything random has a seed: the same windows give the same tables.

    benches/noise/run.py                 build, record, draw: about 10 minutes
    benches/noise/run.py --reuse         draw again from the windows of the last time
    benches/noise/run.py --write         also write the tables to docs/noise.md
"""

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOC = ROOT / "docs/noise.md"
# The tables are the last part of the page.
HEADING = "## Tables\n"
PROGRAMS = ["cpu", "memory", "locks", "processes"]
# Amount of work and of run-queue wait, in percent. Two variants are equal: sides of A/A pairs.
VARIANTS = {
    "base": (100, 100),
    "again": (100, 100),
    "more-work": (110, 100),
    "double-wait": (100, 200),
    "more-wait": (100, 110),
}
# Variants of the wait. The threads of `locks` and the children of `processes` mostly wait for each other, not for the
# rival, so that none can be planted there.
OF_WAIT, WITH_PLANTED_WAIT = ["double-wait", "more-wait"], ["cpu", "memory"]
GROUP = "work"
CPU_TIME, WAIT = "run_time_ns", "wait_time_ns"
# Runs of a side, and the rounds that they are drawn from.
RUNS, NEIGHBOURHOOD = 10, 20
# Name, variant that is compared with the base, metric, the verdict that is counted, and how many of 100 are wanted.
QUESTIONS = [
    ("A/A, CPU time: false alarms", "again", CPU_TIME, "more", lambda found: found <= 1, "≤ 1"),
    ("+10% CPU time found", "more-work", CPU_TIME, "more", lambda found: found >= 95, "≥ 95"),
    ("doubled wait found", "double-wait", WAIT, "more", lambda found: found >= 90, "≥ 90"),
    ("+10% wait called `same`", "more-wait", WAIT, "same", lambda found: found == 0, "0"),
    ("+10% wait called `unclear`", "more-wait", WAIT, "unclear", None, ""),
]


def main():
    args = arguments()
    if not args.programs:
        run(["cargo", "build", "--release", "--bins", "--examples"], cwd=ROOT)
    programs = Path(args.programs or ROOT / "target/release").resolve()
    windows = Path(args.windows).resolve()
    if not args.reuse:
        record(programs, windows, args)
    noises = noise_table(programs / "ctprof", windows, args)
    verdicts, missed = verdict_table(programs / "ctprof", windows, args)
    text = "\n".join([*noises, "", *verdicts])
    print(text)
    if args.write:
        DOC.write_text(DOC.read_text().split(HEADING)[0] + f"{HEADING}\n{text}\n")
    sys.exit(f"{missed} values are not as wanted" if missed else 0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=32, help="runs of each variant of each program (default: 32)")
    parser.add_argument("--pairs", type=int, default=100, help="pairs of sides to draw per question (default: 100)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order of runs and of draws (default: 1)")
    parser.add_argument("--windows", default=ROOT / "target/noise", help="directory of windows (default: target/noise)")
    parser.add_argument("--reuse", action="store_true", help="do not record, draw from recorded windows")
    parser.add_argument("--write", action="store_true", help=f"write the tables to {DOC.relative_to(ROOT)}")
    parser.add_argument("--programs", help="directory of ctprof and examples/, instead of building them")
    args = parser.parse_args()
    if args.rounds < NEIGHBOURHOOD:
        parser.error(f"--rounds: at least {NEIGHBOURHOOD}")
    return args


def run(command, **options):
    subprocess.run(command, check=True, **options)


# Recording


def variants(program):
    return [variant for variant in VARIANTS if variant not in OF_WAIT or program in WITH_PLANTED_WAIT]


def file_of(windows, program, variant, number):
    return windows / program / variant / f"run-{number:03}.ctprof.zst"


def record(programs, windows, args):
    """Records the runs of a program in a round next to each other, in random order, like `ctprof ab`."""
    if windows.exists() and any(windows.iterdir()):
        sys.exit(f"{windows} has windows: remove them, or draw from them with --reuse")
    for program in PROGRAMS:
        for variant in variants(program):
            (windows / program / variant).mkdir(parents=True)
    order = random.Random(args.seed)
    (windows / "machine.json").write_text(json.dumps(machine()))
    neighbor = subprocess.Popen([programs / "examples/neighbor", "half"])
    try:
        began = time.monotonic()
        for number in range(args.rounds):
            for program in PROGRAMS:
                for variant in order.sample(variants(program), len(variants(program))):
                    record_one(programs, file_of(windows, program, variant, number), program, variant)
            left = (time.monotonic() - began) / (number + 1) * (args.rounds - number - 1)
            print(f"recorded round {number + 1} of {args.rounds}, {left:.0f} s left", file=sys.stderr)
    finally:
        neighbor.kill()
        neighbor.wait()


def record_one(programs, file, program, variant):
    work, wait = VARIANTS[variant]
    command = [programs / "examples/work", program, str(work), str(wait)]
    run([programs / "ctprof", "record", "-q", "-o", file, "--", *command], stdin=subprocess.DEVNULL)


def machine():
    """The machine, with its load before the first run: other processes than the neighbor are noise, too."""
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in cpuinfo if line.startswith("model name")), platform.machine())
    load = os.getloadavg()[0]
    return f"{len(os.sched_getaffinity(0))} CPUs ({model}), Linux {platform.release().split('-')[0]}, load average {load:.1f} before"


# Drawing


def draw(chance, rounds, variant):
    """The rounds of both sides: RUNS of NEIGHBOURHOOD consecutive rounds, the base from either of its variants."""
    first = chance.randrange(rounds - NEIGHBOURHOOD + 1)
    chosen = sorted(chance.sample(range(first, first + NEIGHBOURHOOD), RUNS))
    baseline, candidate = [], []
    for number in chosen:
        bases = ["base", "again"]
        chance.shuffle(bases)
        baseline.append((bases[0], number))
        candidate.append((bases[1] if variant == "again" else variant, number))
    return baseline, candidate


def compare(ctprof, windows, program, sides):
    """The rows of the group by metric, from a comparison of two directories."""
    with tempfile.TemporaryDirectory() as scratch:
        directories = [Path(scratch) / name for name in ("baseline", "candidate")]
        for directory, side in zip(directories, sides):
            directory.mkdir()
            for variant, number in side:
                file = file_of(windows, program, variant, number)
                (directory / f"{variant}-{file.name}").symlink_to(file)
        metrics = ["--metrics", f"{CPU_TIME},{WAIT}"]
        command = [ctprof, "compare", "-q", *directories, "--scope", "command", *metrics, "--format", "json"]
        report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return {row["metric"]: row for row in report["rows"] if row["group"] == GROUP}


def comparisons(ctprof, windows, program, variant, args):
    chance = random.Random(f"{args.seed} {program} {variant}")
    rounds = len(list((windows / program / "base").iterdir()))
    pairs = [draw(chance, rounds, variant) for _ in range(args.pairs)]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda sides: compare(ctprof, windows, program, sides), pairs))


# Tables


def values(ctprof, windows, program):
    """CPU time and wait of each base run, in seconds."""
    found = {CPU_TIME: [], WAIT: []}
    for file in sorted((windows / program / "base").iterdir()):
        command = [ctprof, "show", "-q", file, "--scope", "command", "--metrics", f"{CPU_TIME},{WAIT}", "--format", "json"]
        report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        for row in report["rows"]:
            if row["group"] == GROUP and row["metric"] in found:
                found[row["metric"]].append(row["value"] / 1e9)
    return found


def noise(numbers):
    """Median, standard deviation relative to the mean, and the range relative to the median."""
    median = statistics.median(numbers)
    deviation = statistics.stdev(numbers) / statistics.mean(numbers)
    return f"{median:.3f} s | {deviation:.1%} | {min(numbers) / median - 1:+.0%} to {max(numbers) / median - 1:+.0%}"


def noise_table(ctprof, windows, args):
    """How much the machine and equal runs of each program vary."""
    rounds = len(list((windows / PROGRAMS[0] / "base").iterdir()))
    machine = json.loads((windows / "machine.json").read_text())
    lines = [f"{machine}; {rounds} runs of each variant, seed {args.seed}. Noise of unchanged runs:", ""]
    lines += ["| program | CPU time | deviation | range | wait | deviation | range |"]
    lines += ["|---|---:|---:|---:|---:|---:|---:|"]
    for program in PROGRAMS:
        found = values(ctprof, windows, program)
        lines.append(f"| {program} | {noise(found[CPU_TIME])} | {noise(found[WAIT])} |")
    return lines


def verdict_table(ctprof, windows, args):
    """How often each answer is given, and how many of the answers are not as wanted."""
    counts = {}
    for program in PROGRAMS:
        for variant in variants(program)[1:]:
            rows = comparisons(ctprof, windows, program, variant, args)
            for metric in (CPU_TIME, WAIT):
                counts[program, variant, metric] = Counter(row[metric]["verdict"] for row in rows)
            print(f"compared {program}, {variant}", file=sys.stderr)
    lines = [f"| of {args.pairs} comparisons | wanted | " + " | ".join(PROGRAMS) + " |"]
    lines += ["|---|---:|" + "---:|" * len(PROGRAMS)]
    missed = 0
    for name, variant, metric, verdict, is_met, wanted in QUESTIONS:
        found = {program: counts[program, variant, metric][verdict] for program in PROGRAMS if variant in variants(program)}
        missed += sum(is_met is not None and not is_met(count * 100 / args.pairs) for count in found.values())
        lines.append(f"| {name} | {wanted} | " + " | ".join(str(found.get(program, "-")) for program in PROGRAMS) + " |")
    return lines, missed


if __name__ == "__main__":
    main()

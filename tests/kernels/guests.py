"""What a guest left behind, and checks of it.

A check returns what it found, as a text for the table. It raises Failed if ctprof and the kernel disagree or if there is
nothing to compare, and Skipped where the guest cannot do what is to be checked.
"""
import json
import subprocess


class Failed(Exception):
    """A value is wrong, or there is none."""


class Skipped(Exception):
    """The guest lacks what the check needs."""


def require(holds, text):
    if not holds:
        raise Failed(text)


def snapshot(path):
    """A snapshot in which every thread has its own copy of the usual values, and all values by name."""
    whole = json.loads(subprocess.run(["zstd", "-dc", path], capture_output=True, check=True).stdout)
    usual = whole.pop("usual", {})
    columns = usual.pop("columns", [])
    for place, thread in enumerate(whole["threads"]):
        listed = {name: value for names, value in zip(columns, thread.pop("values", [])) for name in names}
        values = {**usual, **listed, **thread}
        whole["threads"][place] = {key: value for key, value in values.items() if value is not None}
    return whole


class Guest:
    """The files that a guest left, and the program that shows them."""

    def __init__(self, out, ctprof):
        self.out, self.ctprof = out, ctprof

    def text(self, name):
        return (self.out / name).read_text()

    def snapshot(self, name):
        return snapshot(self.out / f"{name}.ctprof.zst")

    def show(self, *names, options=("-f", "json", "-n", "0")):
        files = [self.out / f"{name}.ctprof.zst" for name in names]
        return subprocess.run([self.ctprof, "-q", "show", *options, *files], capture_output=True, text=True,
                              check=True).stdout


def run(checks, *arguments):
    """The result of each check, and the names of those that failed."""
    results, failed = {}, []
    for name, check in checks.items():
        try:
            results[name] = check(*arguments)
        except Skipped as reason:
            results[name] = f"skipped: {reason}"
        except Exception as error:  # Also text that has no values.
            results[name] = f"FAILED: {error if isinstance(error, Failed) else repr(error)}"
            failed.append(name)
    return results, failed

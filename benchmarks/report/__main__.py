"""`python -m benchmarks.report [NAME ...] [--quick]`: runs benchmarks and rewrites the page.

Each benchmark runs in a process of its own, because some measure the memory of theirs. The envelopes are stored.
`--page` only rewrites the page.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.report.machine import commit, machine, today
from benchmarks.report.markdown import BEGIN, pictures, results, with_results
from benchmarks.report.stored_results import Run, read, write
from notifier.devkit.engines.maven import missing_tools

ROOT = Path(__file__).resolve().parents[2]
PAGE, STORE, PICTURES = ROOT / "docs/benchmarks.md", ROOT / "docs/benchmarks.json", ROOT / "docs/pictures"

BENCHES = {
    "fanout": ["fanout"],
    "density": ["density"],
    "audience": ["audience"],
    "audience-cluster": ["audience", "--profile", "cluster"],
    "live": ["live"],
    "page": ["page"],
    "cql": ["cql"],
    "log": ["log"],
    "push": ["push"],
    "inbox": ["inbox"],
    "inbox-cluster": ["inbox", "--profile", "cluster"],
}
"""Benchmarks of `make bench`. Every one added here is on the page. `peers` must be named explicitly, because it
installs software."""
OF_ENGINES = {"audience-cluster", "cql", "inbox-cluster", "log"}
"""Benchmarks that start real engines."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report")
    parser.add_argument("names", nargs="*", default=[*BENCHES])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true", help="rewrite the page from stored results")
    asked = parser.parse_args(arguments)
    if unknown := {*asked.names} - {*BENCHES, "peers"}:
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}; choose from {', '.join([*BENCHES, 'peers'])}")
    good = True
    for name in () if asked.page else possible(asked.names):
        run = measured(name, quick=asked.quick)
        write(STORE, read(STORE) | {name: run})  # keep the result even if the next benchmark fails
        good = good and run.envelope["ok"]
    write_page()
    return 0 if good else 1


def possible(names: Sequence[str]) -> Sequence[str]:
    """Drop benchmarks whose engines are missing, with a message. Their stored results stay on the page."""
    if not (OF_ENGINES & {*names} and (lacking := missing_tools())):
        return names
    left = ", ".join(name for name in names if name in OF_ENGINES)
    print(f"skipped {left}: its engines need Java 17 and Maven; not found: {', '.join(lacking)}")
    return [name for name in names if name not in OF_ENGINES]


def measured(name: str, *, quick: bool) -> Run:
    """Run a benchmark. Raises CalledProcessError if it ends without an envelope."""
    arguments = ["-m", "benchmarks", *BENCHES.get(name, [name]), *(["--quick"] if quick else [])]
    place = machine()
    done = subprocess.run(
        [sys.executable, *arguments, "--json"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    if not done.stdout.strip():
        raise subprocess.CalledProcessError(done.returncode, ["python", *arguments])
    envelope: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    command = " ".join(["python", *arguments])
    return Run(command=command, commit=commit(ROOT), date=today(), machine=place, envelope=envelope)


def write_page() -> None:
    """Write page and pictures from the store alone. The same store gives the same bytes."""
    runs = read(STORE)
    PICTURES.mkdir(exist_ok=True)
    drawn = pictures(runs)
    for path in PICTURES.glob("bench-*.svg"):
        if path.name not in drawn:
            path.unlink()
    for name, text in drawn.items():
        (PICTURES / name).write_text(text, encoding="utf-8")
    PAGE.write_text(with_results(PAGE.read_text(encoding="utf-8"), results(runs)), encoding="utf-8")


if __name__ == "__main__":
    assert BEGIN in PAGE.read_text(encoding="utf-8"), f"{PAGE.name} lacks the line {BEGIN}"
    sys.exit(main(sys.argv[1:]))

"""Engines end with the process that they are for, also when it is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SLEEPS = "import time; time.sleep(60)"
RUNS = """
import subprocess, sys, time
from pathlib import Path
from notifier.devkit.engines.reaper import watched

folder = Path(sys.argv[1])
with watched(folder):
    engine = subprocess.Popen([sys.executable, "-c", sys.argv[2], f"{folder}/data"], start_new_session=True)
    print(engine.pid, flush=True)
    if sys.argv[3] == "stays":
        time.sleep(60)
"""


def runner(folder: Path, does: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", RUNS, str(folder), SLEEPS, does], stdout=subprocess.PIPE, text=True)


def lives(pid: int) -> bool:
    said = subprocess.run(["ps", "-p", str(pid), "-o", "stat="], capture_output=True, text=True, check=False).stdout
    return bool(said.strip()) and not said.startswith("Z")


def test_who_is_killed_leaves_no_engine_behind_and_nobody_else_s_ends(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", SLEEPS, f"{tmp_path}/mine-too/data"])
    with runner(tmp_path / "mine", "stays") as process:
        assert process.stdout
        engine = int(process.stdout.readline())
        assert lives(engine)
        process.kill()
    deadline = time.monotonic() + 20
    while lives(engine):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert lives(other.pid)
    other.kill()
    other.wait()


def test_who_comes_to_the_end_has_stopped_them_himself(tmp_path: Path) -> None:
    with runner(tmp_path, "ends") as process:
        assert process.stdout
        engine = int(process.stdout.readline())
        assert process.wait(20) == 0
    time.sleep(1.5)  # a watcher would have looked
    assert lives(engine)
    os.kill(engine, signal.SIGKILL)

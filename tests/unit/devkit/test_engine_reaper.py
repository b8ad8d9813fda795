"""Engines end when the process that started them is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SLEEP_SCRIPT = "import time; time.sleep(60)"
RUN_SCRIPT = """
import subprocess, sys, time
from pathlib import Path
from notifier.devkit.engines.reaper import reaping

folder = Path(sys.argv[1])
with reaping(folder):
    engine = subprocess.Popen([sys.executable, "-c", sys.argv[2], f"{folder}/data"], start_new_session=True)
    print(engine.pid, flush=True)
    if sys.argv[3] == "stays":
        time.sleep(60)
"""


def started_process(folder: Path, mode: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", RUN_SCRIPT, str(folder), SLEEP_SCRIPT, mode], stdout=subprocess.PIPE, text=True
    )


def is_alive(pid: int) -> bool:
    state = subprocess.run(["ps", "-p", str(pid), "-o", "stat="], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def test_killed_process_leaves_no_engine_running(tmp_path: Path) -> None:
    other_engine = [sys.executable, "-c", SLEEP_SCRIPT, f"{tmp_path}/mine-too/data"]
    with subprocess.Popen(other_engine) as other_process:
        try:
            with started_process(tmp_path / "mine", "stays") as process:
                assert process.stdout
                engine = int(process.stdout.readline())
                assert is_alive(engine)
                process.kill()
            deadline = time.monotonic() + 20
            while is_alive(engine):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            assert is_alive(other_process.pid)
        finally:
            other_process.kill()


def test_watchdog_does_not_stop_engines_after_normal_exit(tmp_path: Path) -> None:
    with started_process(tmp_path, "ends") as process:
        assert process.stdout
        engine = int(process.stdout.readline())
        assert process.wait(20) == 0
    try:
        time.sleep(1.5)  # by now a watchdog would have checked
        assert is_alive(engine)
    finally:
        os.kill(engine, signal.SIGKILL)

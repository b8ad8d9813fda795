"""Ctrl-C during startup prints one line and exits with the command's usual code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from notifier.__main__ import exit_code_of
from tests.repo.repository_files import ROOT

CTRL_C = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"


def interrupted(folder: Path, importing: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `notifier`, and press Ctrl-C when that module begins to be imported."""
    (folder / f"{importing}.py").write_text(CTRL_C)
    path = os.pathsep.join((str(folder), str(ROOT)))
    return subprocess.run(
        [sys.executable, "-m", "notifier", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.parametrize("importing", ["click", "numpy"])
def test_demo_interrupted_during_imports_exits_cleanly(importing: str, tmp_path: Path) -> None:
    result = interrupted(tmp_path, importing, "demo", "--keep", str(tmp_path / "kept"))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "Stopped.\n")
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("importing", ["click", "prometheus_client"])
def test_up_interrupted_during_imports_exits_cleanly(importing: str, tmp_path: Path) -> None:
    result = interrupted(tmp_path, importing, "up", "--port", "0", "--data", str(tmp_path / "kept"))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "Stopped.\n")


def test_one_shot_command_interrupted_during_imports_fails(tmp_path: Path) -> None:
    result = interrupted(tmp_path, "numpy", "fixture", "--data", str(tmp_path / "kept"))
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "Stopped.\n")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("demo --fresh", 0),
        ("demo --headless", 130),
        ("demo --json", 130),
        ("worker p2", 0),
        ("--no-color up", 0),
        ("top", 0),
        ("top --json", 130),
        ("top --once", 130),
        ("", 130),
    ],
)
def test_only_long_running_command_exits_zero_on_ctrl_c(arguments: str, code: int) -> None:
    assert exit_code_of(arguments.split()) == code


SIGTERM_WHILE_LOCKED = """
import os, signal, sys
from notifier.cli.commands.roles import stop_signal
with stop_signal() as stopping:
    with vars(stopping)["_cond"]:
        os.kill(os.getpid(), signal.SIGTERM)
        sum(range(1_000))
    sys.exit(0 if stopping.wait(10) else 3)
"""


def test_role_stops_on_sigterm_while_it_starts_to_wait() -> None:
    assert (
        subprocess.run([sys.executable, "-c", SIGTERM_WHILE_LOCKED], cwd=ROOT, timeout=30, check=False).returncode == 0
    )

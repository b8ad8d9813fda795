"""Ctrl-C before a verb has begun: one line, and the code with which it would have ended later."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from notifier.__main__ import code_of
from tests.repo.sources import ROOT

CTRL_C = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"


def cut_off(folder: Path, importing: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Ctrl-C as that module begins to be imported."""
    (folder / f"{importing}.py").write_text(CTRL_C)
    path = os.pathsep.join((str(folder), str(ROOT)))
    return subprocess.run(
        [sys.executable, "-m", "notifier", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.parametrize("importing", ["click", "numpy"])
def test_the_demo_is_stopped_as_cleanly_before_it_begins(importing: str, tmp_path: Path) -> None:
    done = cut_off(tmp_path, importing, "demo", "--keep", str(tmp_path / "kept"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "Stopped.\n")
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("importing", ["click", "prometheus_client"])
def test_so_is_up(importing: str, tmp_path: Path) -> None:
    done = cut_off(tmp_path, importing, "up", "--port", "0", "--data", str(tmp_path / "kept"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "Stopped.\n")


def test_a_verb_that_was_to_do_something_does_not_say_that_it_did(tmp_path: Path) -> None:
    done = cut_off(tmp_path, "numpy", "fixture", "--data", str(tmp_path / "kept"))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Stopped.\n")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("demo --fresh", 0),
        ("demo --headless", 130),
        ("demo --json", 130),
        ("worker p2", 0),
        ("--no-color up", 0),
        ("top", 0),
        ("top --json", 130),
        ("", 130),
    ],
)
def test_only_what_runs_until_then_ends_well(words: str, code: int) -> None:
    assert code_of(words.split()) == code


HELD = """
import os, signal, sys
from notifier.cli.commands.roles import told_to_stop
with told_to_stop() as stopping:
    with vars(stopping)["_cond"]:
        os.kill(os.getpid(), signal.SIGTERM)
        sum(range(1_000))
    sys.exit(0 if stopping.wait(10) else 3)
"""


def test_a_role_that_is_told_to_stop_at_the_moment_at_which_it_begins_to_wait_stops() -> None:
    assert subprocess.run([sys.executable, "-c", HELD], cwd=ROOT, timeout=30, check=False).returncode == 0

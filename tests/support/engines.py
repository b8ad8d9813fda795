"""The engines that the tests of a run share: started by the first that needs one, gone when the run has ended."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from notifier.config import Settings
from notifier.devkit.engines.fleet import EngineRecord, Fleet
from notifier.devkit.engines.maven import missing
from notifier.devkit.engines.reaper import watch

KEPT = os.environ.get("ENGINES")
"""A folder whose engines stay for the next run, which then begins at once."""

WATCHERS: list[object] = []
"""Held until this process ends, which they wait for."""


def engines(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, EngineRecord]:
    """Kafka, Cassandra and Valkey, one of each for all processes of the run."""
    if lacking := missing():
        pytest.skip(f"the engines need Java 17 and Maven; not found: {', '.join(lacking)}")
    if KEPT:
        return _up(Path(KEPT))
    # A worker of xdist has a folder of its own in the run's.
    base, several = tmp_path_factory.getbasetemp(), "PYTEST_XDIST_WORKER" in os.environ
    folder = (base.parent if several else base) / "engines"
    runner = os.getppid() if several else os.getpid()
    WATCHERS.append(watch(folder, runner))
    return _up(folder)


def _up(folder: Path) -> Mapping[str, EngineRecord]:
    command = [sys.executable, "-m", "notifier", "services", "up", "--periodic", "--data", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return _fleet(folder).standing()


def _fleet(folder: Path) -> Fleet:
    return Fleet(folder=folder / "services", cache=Settings.read().jars.expanduser())

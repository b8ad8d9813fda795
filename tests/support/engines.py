"""Engines shared by all tests of a run, from their first use to its end."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from notifier.config import Settings
from notifier.devkit.engines.fleet import EngineRecord, Fleet
from notifier.devkit.engines.maven import missing_tools
from notifier.devkit.engines.reaper import start_reaper

KEPT = os.environ.get("ENGINES")
"""Folder of engines that keep running for the next run, which then starts faster."""

WITHOUT_FLUSHES = "-Dcassandra.test.flush_local_schema_changes=false -Dcassandra.unsafesystem=true"
"""Java options that let Cassandra keep changes of its system tables in memory. They halve the time of a migration and
make a truncation seven times as fast. A killed node would forget the changes, but no test kills this one."""

REAPERS: list[object] = []
"""Keeps the reapers alive: they wait for the end of this process."""


def engines(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, EngineRecord]:
    """Return Kafka, Cassandra and Valkey, one of each for all processes of the run."""
    if not_found := missing_tools():
        pytest.skip(f"the engines need Java 17 and Maven; not found: {', '.join(not_found)}")
    if KEPT:
        return _up(Path(KEPT))
    # A worker of xdist has its own folder within the folder of the run.
    base, is_xdist_worker = tmp_path_factory.getbasetemp(), "PYTEST_XDIST_WORKER" in os.environ
    folder = (base.parent if is_xdist_worker else base) / "engines"
    runner = os.getppid() if is_xdist_worker else os.getpid()
    REAPERS.append(start_reaper(folder, runner))
    return _up(folder)


def _up(folder: Path) -> Mapping[str, EngineRecord]:
    command = [sys.executable, "-m", "notifier", "services", "up", "--periodic", "--data", str(folder)]
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {WITHOUT_FLUSHES}"}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    return _fleet(folder).records()


def _fleet(folder: Path) -> Fleet:
    return Fleet(folder=folder / "services", cache=Settings.read().jars.expanduser())

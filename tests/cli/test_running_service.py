"""The helper for running services ends late ones, and checks their own ready file."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from notifier.cli.running_service import Ready, ready_path, write_ready
from tests.cli.running_service import Running, start_service


def test_service_that_starts_too_late_is_ended(folder: Path) -> None:
    with pytest.raises(AssertionError, match="not within"):
        start_service(folder, folder / "asked-for.json", within=0.0)
    children = psutil.Process().children(recursive=True)
    assert [child for child in children if str(folder) in child.cmdline()] == []


@pytest.mark.parametrize("own", [True, False])
def test_service_is_ready_by_its_own_file_only(tmp_path: Path, *, own: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        pids = {"up": process.pid if own else psutil.Process().pid}
        ready = Ready(url="http://x", service_key="k", pids=pids, data=str(tmp_path), version="0")
        write_ready(ready_path(tmp_path), ready)
        assert Running(data=tmp_path, process=process).is_ready() is own

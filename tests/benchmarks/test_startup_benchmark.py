"""The startup benchmark measures each way to start roles, and leaves no process."""

from pathlib import Path

import psutil
import pytest

from benchmarks.startup.start_and_restart_costs import UNITS, WAYS, figure, measure, service
from tests.cli.running_service import is_running

pytestmark = pytest.mark.prove


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=() if way == "fork_server" else pytest.mark.prove) for way in WAYS]
)
def test_start_is_measured_and_leaves_no_process(way: str, tmp_path: Path) -> None:
    with service(tmp_path / way, way) as started:
        start = measure(started)
        roles = {pid for role in ("api", "pump", "p2") if (pid := started.pid(role))}
    figures = [figure(name, way, [start]) for name in UNITS]
    assert [row.finding.name for row in figures] == [f"up_{name}{{{way}}}" for name in UNITS]
    assert all(row.finding.ok and row.finding.value for row in figures)
    assert [pid for pid in roles if is_running(pid)] == []
    assert not psutil.pid_exists(started.process.pid)

"""`notifier up` starts its fork server first, and ends it when refused."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic

from notifier.cli.commands.up import run_service
from notifier.cli.supervisor.heartbeat import HeartbeatLimits
from notifier.config import Settings


@contextmanager
def open_forks(profile, logs):
    heavy = [name for name in ("notifier.profiles", "litestar") if name in sys.modules]
    print(profile, logs.name, logs.is_dir(), heavy)
    try:
        yield None
    finally:
        print("closed")


settings = replace(Settings.read({}, data=Path(sys.argv[1])), profile="unknown")
run_service(
    settings, ready_file=None, heartbeat_limits=HeartbeatLimits(), started_at=monotonic(), open_forks=open_forks
)
"""


def test_fork_server_starts_before_imports_and_ends_with_a_refused_start(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "data")], capture_output=True, text=True, check=False
    )
    assert "BadSetting" in result.stderr, result.stderr
    assert result.stdout.splitlines() == ["unknown logs True []", "closed"]


def test_file_in_place_of_the_logs_is_refused_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "logs").touch()
    result = subprocess.run(
        [sys.executable, "-m", "notifier", "up", "--port", "0", "--data", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 3
    assert "logs: File exists." in result.stderr
    assert "Traceback" not in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"logs"}

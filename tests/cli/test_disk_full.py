"""A full disk refuses writes, serves reads, and needs only freed space to recover."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psutil
import pytest

from notifier.cli.running_service import Ready
from tests.cli.conftest import Notifier
from tests.cli.running_service import STARTS_WITHIN, Running, is_running, start_service, until
from tests.cli.service_caller import Caller, calling
from tests.repo.repository_files import ROOT

SIZE = "16m"
"""Size of the disk; a running service with a small world fills a tenth of it."""
PAGE = bytes(4096)
AS_ROOT = ("unshare", "--user", "--map-root-user", "--mount")
"""Gives a user who is not root a mount namespace."""


@contextmanager
def small_disk(at: Path) -> Iterator[Path]:
    at.mkdir()
    result = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", at], check=False, capture_output=True, text=True
    )
    if result.returncode:
        pytest.skip(f"A full disk is NOT TESTED here: nothing can be mounted. {result.stderr.strip()}")
    try:
        yield at
    finally:
        # Lazily: a process that still uses it must not keep it.
        subprocess.run(["umount", "--lazy", at], check=True)


def fill_disk(filler: Path) -> None:
    """Fill the disk to its last page, so that the next write fails."""
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(PAGE):
                pass
        except OSError:
            assert os.statvfs(filler.parent).f_bavail == 0


def rerun_as_root(test: str) -> None:
    """Run the same test in a process that may mount."""
    if subprocess.run([*AS_ROOT, "true"], check=False, capture_output=True).returncode:
        pytest.skip("A full disk is NOT TESTED here: this user is not root, and may not have a namespace of its own.")
    arguments = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", f"{__file__}::{test}"]
    result = subprocess.run([*AS_ROOT, *arguments], check=False, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
    assert "1 passed" in result.stdout, result.stdout


@pytest.mark.thorough
@pytest.mark.timeout(400)
def test_full_disk_refuses_writes_serves_reads_and_kills_no_process(tmp_path: Path, notifier: Notifier) -> None:
    if os.geteuid() != 0:
        rerun_as_root("test_full_disk_refuses_writes_serves_reads_and_kills_no_process")
        return
    with small_disk(tmp_path / "disk") as disk:
        options = ("--followers", "1000", "--universe", "2000", "--celebrities", "1", "--json")
        assert notifier("fixture", *options, "--data", str(disk)).exit_code == 0
        token = notifier("token", "u1", "--data", str(disk)).stdout.strip()
        running = start_service(disk, tmp_path / "ready.json")
        try:
            with calling(running.ready, token) as caller:
                fill_and_free(running, caller, disk / "filler")
        finally:
            running.end()


def fill_and_free(running: Running, caller: Caller, filler: Path) -> None:
    before = running.ready
    assert caller.post_is_accepted("before")
    until(lambda: caller.is_finished("before"), STARTS_WITHIN)

    # The second event passes through the stages while the disk fills up.
    assert caller.post_is_accepted("while-it-fills")
    fill_disk(filler)
    accepted = ["before", "while-it-fills", *accepted_until_refused(caller)]
    check_reads(caller)
    assert [role for role, pid in before.pids.items() if not is_running(pid)] == []

    check_killed_role_waits(running, before)
    check_reads(caller)
    assert caller.post("refused").status_code == 507

    filler.unlink()
    assert caller.post_is_accepted("after")
    until(lambda: all(caller.is_finished(id) for id in [*accepted, "after"]), STARTS_WITHIN)
    # Until `up` has started the role again, the file has the id of a process that the full disk has ended.
    until(lambda: all(is_running(pid) for pid in running.ready.pids.values()), STARTS_WITHIN)
    assert {role for role, pid in running.ready.pids.items() if pid != before.pids[role]} == {"p1"}


def accepted_until_refused(caller: Caller) -> list[str]:
    """Files with spare pages accept some more events, which must be kept."""
    for n in count():
        response = caller.post(f"while-it-is-full-{n}")
        if response.status_code != 202:
            assert (response.status_code, response.json()["code"]) == (507, "disk_full")
            assert response.headers["content-type"] == "application/problem+json"
            assert int(response.headers["retry-after"]) > 0
            return [f"while-it-is-full-{earlier}" for earlier in range(n)]
    raise AssertionError


def check_reads(caller: Caller) -> None:
    assert caller.http.get("/readyz").status_code == 200
    assert caller.metrics().status_code == 200
    assert caller.inbox().status_code == 200


def check_killed_role_waits(running: Running, ready: Ready) -> None:
    """Kill one role: it cannot restart yet, and no other process ends."""
    up = psutil.Process(ready.pids["up"])
    earlier = {child.pid for child in up.children()}
    os.kill(ready.pids["p1"], signal.SIGKILL)
    restarts = set[int]()

    def restarted_twice() -> bool:
        assert running.process.poll() is None, "notifier up has ended"
        restarts.update({child.pid for child in up.children()} - earlier)
        return len(restarts) > 1

    until(restarted_twice, STARTS_WITHIN)
    assert [role for role, pid in ready.pids.items() if not is_running(pid)] == ["p1"]

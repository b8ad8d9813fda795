"""A full disk, a real one: writes are refused, reads go on, nobody dies of it, and room is all that it takes."""

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

from notifier.cli.http import Ready
from tests.cli.caller import Caller, calling
from tests.cli.conftest import Notifier
from tests.cli.running import STARTS_WITHIN, Running, lives, start, until
from tests.repo.sources import ROOT

SIZE = "16m"
"""Of the disk; a running service with a small world fills a tenth of it."""
PAGE = bytes(4096)
AS_ROOT = ("unshare", "--user", "--map-root-user", "--mount")
"""How somebody who isn't root gets a place of his own to mount in."""


@contextmanager
def small_disk(at: Path) -> Iterator[Path]:
    at.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", at], check=False, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"A full disk is NOT TESTED here: nothing can be mounted. {done.stderr.strip()}")
    try:
        yield at
    finally:
        # Lazily: whoever is still there must not keep it.
        subprocess.run(["umount", "--lazy", at], check=True)


def fill(filler: Path) -> None:
    """To the last page, so that nothing is left to whoever asks next."""
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(PAGE):
                pass
        except OSError:
            assert os.statvfs(filler.parent).f_bavail == 0


def again_as_root(test: str) -> None:
    """The same test in a process that may mount."""
    if subprocess.run([*AS_ROOT, "true"], check=False, capture_output=True).returncode:
        pytest.skip("A full disk is NOT TESTED here: this user is not root, and may not have a namespace of its own.")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", f"{__file__}::{test}"]
    done = subprocess.run([*AS_ROOT, *words], check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.timeout(400)
def test_a_full_disk_refuses_writes_and_no_reads_and_takes_nobody_with_it(tmp_path: Path, notifier: Notifier) -> None:
    if os.geteuid() != 0:
        again_as_root("test_a_full_disk_refuses_writes_and_no_reads_and_takes_nobody_with_it")
        return
    with small_disk(tmp_path / "disk") as disk:
        words = ("--followers", "1000", "--universe", "2000", "--celebrities", "1", "--json")
        assert notifier("fixture", *words, "--data", str(disk)).exit_code == 0
        person = notifier("token", "u1", "--data", str(disk)).stdout.strip()
        running = start(disk, tmp_path / "ready.json")
        try:
            with calling(running.ready, person) as caller:
                fill_and_free(running, caller, disk / "filler")
        finally:
            running.end()


def fill_and_free(running: Running, caller: Caller, filler: Path) -> None:
    first = running.ready
    assert caller.accepted("before")
    until(lambda: caller.settled("before"), STARTS_WITHIN)

    # The second is on its way through the stages while the disk fills up.
    assert caller.accepted("while-it-fills")
    fill(filler)
    accepted = ["before", "while-it-fills", *accepted_until_refused(caller)]
    reads_go_on(caller)
    assert [role for role, pid in first.pids.items() if not lives(pid)] == []

    survives_a_death_on_a_full_disk(running, first)
    reads_go_on(caller)
    assert caller.post("refused").status_code == 507

    filler.unlink()
    assert caller.accepted("after")
    until(lambda: all(caller.settled(id) for id in [*accepted, "after"]), STARTS_WITHIN)
    until(lambda: running.ready.pids["p1"] != first.pids["p1"], STARTS_WITHIN)
    last = running.ready.pids
    assert {role for role, pid in last.items() if pid != first.pids[role]} == {"p1"}
    assert all(lives(pid) for pid in last.values())


def accepted_until_refused(caller: Caller) -> list[str]:
    """A file that has pages to spare takes some more; what it took is kept."""
    for n in count():
        answer = caller.post(f"while-it-is-full-{n}")
        if answer.status_code != 202:
            assert (answer.status_code, answer.json()["code"]) == (507, "disk_full")
            assert answer.headers["content-type"] == "application/problem+json"
            assert int(answer.headers["retry-after"]) > 0
            return [f"while-it-is-full-{earlier}" for earlier in range(n)]
    raise AssertionError


def reads_go_on(caller: Caller) -> None:
    assert caller.http.get("/readyz").status_code == 200
    assert caller.metrics().status_code == 200
    assert caller.tab().status_code == 200


def survives_a_death_on_a_full_disk(running: Running, first: Ready) -> None:
    """One role is killed: it can't come back yet, and that is nobody else's end."""
    up = psutil.Process(first.pids["up"])
    before = {child.pid for child in up.children()}
    os.kill(first.pids["p1"], signal.SIGKILL)
    tried = set[int]()

    def tried_twice() -> bool:
        assert running.process.poll() is None, "notifier up has ended"
        tried.update({child.pid for child in up.children()} - before)
        return len(tried) > 1

    until(tried_twice, STARTS_WITHIN)
    assert [role for role, pid in first.pids.items() if not lives(pid)] == ["p1"]

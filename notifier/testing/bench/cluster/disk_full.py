"""`disk_full_store`: the disk under Cassandra is full in a storm; with room again, all that was accepted is there.

Only where a disk of its own can be mounted for it.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from notifier.domain.errors import Environment
from notifier.testing.bench.cluster.stage import Stage, stage
from notifier.testing.finding import Finding, agreement
from notifier.testing.trial import Tell

NAME = "disk_full_store"
SIZE = 256 << 20
"""Bytes: enough for an empty node and a small world."""
MENTIONS, LASTING = 60, 12.0
FULL_FOR = 8.0
PIECE = bytes(1 << 16)


def run(folder: Path, *, quick: bool, tell: Tell) -> Finding:
    """A node whose disk is full stops serving, or dies; its operators make room and start it again."""
    disk = folder / "data" / "services" / "cassandra"
    with _mounted(disk), stage(folder, tell) as found:
        with found.storming(MENTIONS, LASTING):
            time.sleep(LASTING / 4)
            written = _fill(disk / "filler")
            tell(f"filled the disk with {written >> 20} MiB")
            time.sleep(FULL_FOR)
            (disk / "filler").unlink()
            found.engines.kill("cassandra")
        wrong = _refused(found) + found.wrong()
        return agreement(NAME, wrong, n=MENTIONS)


def possible() -> bool:
    """Who may mount may try this."""
    return (
        os.geteuid() == 0
        and subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0
    )


def _refused(found: Stage) -> list[str]:
    words = (found.engines.fleet.folder / "cassandra" / "cassandra-1.log").read_text(errors="replace")
    full = "No space left on device" in words or "unsafe memory access" in words
    return [] if full else ["Cassandra didn't notice that its disk was full: nothing was tried"]


def _fill(filler: Path) -> int:
    written = 0
    with filler.open("wb", buffering=0) as file:
        while True:
            try:
                written += file.write(PIECE)
            except OSError:
                return written


@contextmanager
def _mounted(place: Path) -> Iterator[None]:
    place.mkdir(parents=True)
    _done("mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place))
    try:
        yield
    finally:
        _done("umount", "--lazy", str(place))


def _done(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Environment(f"{' '.join(command)}: {done.stderr.strip()}")

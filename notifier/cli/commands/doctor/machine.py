"""What the doctor finds: of the machine here, of the folder's contents in `folder_findings`."""

import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from notifier.cli.data_folder import probe
from notifier.cli.output import Check
from notifier.domain.errors import Unwritable

OLDEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 38, 0)
"""JSON functions are built in since then; RETURNING is older."""
ROOM_LOW, ROOM_NEEDED = 2 << 30, 128 << 20
"""Bytes: a day's bulk of a small installation; and what a restart needs."""


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    name: str
    level: Level = Level.OK
    detail: str
    remedy: str = ""
    value: float | int | str | None = None
    limit: float | int | str | None = None
    unit: str = ""

    @property
    def check(self) -> Check:
        """A warning is no failure: it runs, and somebody should look."""
        return Check(
            name=self.name,
            ok=self.level is not Level.FAIL,
            value=self.value,
            limit=self.limit,
            unit=self.unit,
            detail=" ".join(filter(None, ("warning:" if self.level is Level.WARN else "", self.detail, self.remedy))),
        )


def machine_findings(data: Path, profile: str) -> Iterator[Finding]:
    yield python_finding(sys.version_info[:2])
    if profile == "embedded":
        yield sqlite_finding(sqlite3.sqlite_version_info)
    yield folder_finding(data)
    if data.is_dir():
        yield room_finding(shutil.disk_usage(data).free)


def python_finding(version: tuple[int, int]) -> Finding:
    old = version < OLDEST_PYTHON
    return Finding(
        name="python",
        level=Level.FAIL if old else Level.OK,
        detail=f"{platform.python_version()}.",
        remedy="Python 3.11 or newer is needed." if old else "",
        value=platform.python_version(),
        limit="3.11",
    )


def sqlite_finding(version: tuple[int, ...]) -> Finding:
    old = version < OLDEST_SQLITE
    return Finding(
        name="sqlite",
        level=Level.FAIL if old else Level.OK,
        detail=f"{'.'.join(map(str, version))}.",
        remedy="A Python with SQLite 3.38 or newer is needed." if old else "",
        value=".".join(map(str, version)),
        limit="3.38.0",
    )


def folder_finding(data: Path) -> Finding:
    if not data.is_dir():
        remedy = "`notifier up` or `notifier migrate` makes it; --data names another."
        return Finding(name="folder", level=Level.FAIL, detail=f"There is no folder {data}.", remedy=remedy)
    try:
        probe(data)
    except Unwritable as error:
        remedy = "Give this user the right to write there, or make room on the disk."
        return Finding(name="folder", level=Level.FAIL, detail=str(error), remedy=remedy)
    return Finding(name="folder", detail=f"{data} can be written to.", value=str(data))


def room_finding(free: int) -> Finding:
    level = Level.FAIL if free < ROOM_NEEDED else Level.WARN if free < ROOM_LOW else Level.OK
    remedy = "Make room: on a full disk writes are refused, and reads go on." if level is not Level.OK else ""
    return Finding(
        name="room",
        level=level,
        detail=f"{free / (1 << 30):.1f} GiB free.",
        remedy=remedy,
        value=free,
        limit=ROOM_NEEDED,
        unit="bytes",
    )

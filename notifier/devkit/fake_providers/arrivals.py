"""Arrivals: a line for each alert that came to a phone, for people to read and checks to count."""

import json
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import SEEK_END
from pathlib import Path
from typing import BinaryIO

from notifier.domain.ids import Platform
from notifier.ports.clock import Clock

REMEMBERED = 200_000
"""Alerts at phones, the last ones, for which it is known whether they came before; some 30 MB."""
LOOKED_AT = 64 << 20
"""Bytes at the end of a file in which an earlier life left its lines."""


@dataclass(slots=True, kw_only=True)
class Arrivals:
    """Of one platform; several write into one file, a line at a time."""

    out: BinaryIO
    """Unbuffered, and appended to: whoever reads finds whole lines."""
    platform: Platform
    clock: Clock
    _came: "OrderedDict[tuple[str, str], None]" = field(default_factory=OrderedDict)

    def remember(self, file: Path) -> None:
        """What came in an earlier life: a fake that was killed knows what it has rung. A line over which it was killed
        ends here, or the next one would be lost with it."""
        if not _ends_whole(file):
            self.out.write(b"\n")
        for to, id in _earlier(file, self.platform):
            self._note(to, id)

    def heard(self, to: str, *, place: str, text: str, id: str) -> None:
        line = {
            "at": self.clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "platform": str(self.platform),
            "to": to,
            "place": place,
            "id": id,
            "text": text,
            "again": self._note(to, id),
        }
        self.out.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")

    def _note(self, to: str, id: str) -> bool:
        """Whether it came before."""
        again = (to, id) in self._came
        self._came[to, id] = None
        if len(self._came) > REMEMBERED:
            self._came.popitem(last=False)
        return again


def _ends_whole(file: Path) -> bool:
    with file.open("rb") as lines:
        if not lines.seek(0, SEEK_END):
            return True
        lines.seek(-1, SEEK_END)
        return lines.read() == b"\n"


def _earlier(file: Path, platform: Platform) -> Iterator[tuple[str, str]]:
    with file.open("rb") as lines:
        size = lines.seek(0, SEEK_END)
        lines.seek(max(0, size - LOOKED_AT))
        for line in lines:
            try:
                said = json.loads(line)
                if said["platform"] == platform:
                    yield said["to"], said["id"]
            except (ValueError, KeyError, TypeError):  # the rest of a line, or another's
                continue

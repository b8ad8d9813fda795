"""Events set aside: each was answered with a failure every time, and waits for somebody's order to be sent again."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Lock

from notifier.client.event import MentionEvent


@dataclass(slots=True)
class Aside:
    """By id, in the order in which they were set aside. For any number of threads of one process."""

    path: Path | None = None
    """A file with an event a line, read when it is first needed; None: they live as long as the process."""
    _events: dict[str, MentionEvent] | None = field(default=None, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.events())

    @property
    def kept(self) -> bool:
        """They outlive the process."""
        return self.path is not None

    def events(self) -> Sequence[MentionEvent]:
        """Raises OSError or ValueError for a file that can't be read."""
        with self._lock:
            return tuple(self._known().values())

    def put(self, event: MentionEvent) -> None:
        """Durable when it returns. Raises OSError, and then it isn't set aside."""
        with self._lock:
            known = self._known()
            if self.path is not None and event.id not in known:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                _write(self.path, [*known.values(), event])
            known[event.id] = event

    def drop(self, ids: Iterable[str]) -> None:
        """They were answered. A crash before leaves them to be sent once more, which is safe."""
        with self._lock:
            known, gone = self._known(), set(ids)
            left = {id: event for id, event in known.items() if id not in gone}
            if len(left) == len(known):
                return
            if self.path is not None:
                _write(self.path, left.values())
            self._events = left

    def _known(self) -> dict[str, MentionEvent]:
        if self._events is None:
            lines = self.path.read_text("utf-8").splitlines() if self.path and self.path.exists() else []
            self._events = {event.id: event for event in map(_read, lines)}
        return self._events


def _write(path: Path, events: Iterable[MentionEvent]) -> None:
    """Whoever reads finds the old file or the new one: they are few, and half of one would lose an event."""
    draft = path.with_name(f"{path.name}.draft")
    with draft.open("w", encoding="utf-8") as file:
        file.writelines(_line(event) for event in events)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the name, too: without this, it is the old file that is there after a power cut
    finally:
        os.close(folder)


def _line(event: MentionEvent) -> str:
    return json.dumps({**asdict(event), "mentions": list(event.mentions), "at": event.at.isoformat()}) + "\n"


def _read(line: str) -> MentionEvent:
    """Raises ValueError."""
    try:
        found = json.loads(line)
        return MentionEvent(**{**found, "at": datetime.fromisoformat(found["at"])})
    except (TypeError, KeyError) as error:  # JSON, and no event of this version's
        raise ValueError(f"It is no event: {line!r}.") from error

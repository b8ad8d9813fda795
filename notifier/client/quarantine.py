"""Quarantine: keeps events that always fail, until a manual retry."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Lock

from notifier.client.event_and_receipt import MentionEvent


@dataclass(slots=True)
class Quarantine:
    """Quarantined events, unique by id, in the order of their arrival. Thread-safe within one process."""

    path: Path | None = None
    """File with one event per line, read at first use. None keeps the events in memory only."""
    _events: dict[str, MentionEvent] | None = field(default=None, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.events())

    @property
    def is_durable(self) -> bool:
        """Whether the events survive a restart of the process."""
        return self.path is not None

    def events(self) -> Sequence[MentionEvent]:
        """Return all quarantined events. Raises OSError or ValueError if the file is unreadable."""
        with self._lock:
            return tuple(self._load().values())

    def put(self, event: MentionEvent) -> None:
        """Add an event, durably if there is a file. Raises OSError or ValueError."""
        with self._lock:
            events = self._load()
            if self.path is not None and event.id not in events:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                _write(self.path, [*events.values(), event])
            events[event.id] = event

    def drop(self, ids: Iterable[str]) -> None:
        """Remove events that were answered. If a crash leaves one in the file, a later retry is safe."""
        with self._lock:
            events, answered = self._load(), set(ids)
            remaining = {id: event for id, event in events.items() if id not in answered}
            if len(remaining) == len(events):
                return
            if self.path is not None:
                _write(self.path, remaining.values())
            self._events = remaining

    def _load(self) -> dict[str, MentionEvent]:
        if self._events is None:
            lines = self.path.read_text("utf-8").splitlines() if self.path and self.path.exists() else []
            self._events = {event.id: event for event in map(_read, lines)}
        return self._events


def _write(path: Path, events: Iterable[MentionEvent]) -> None:
    """Replace the file atomically, because a partly written file would lose an event. The file is small."""
    new_file = path.with_name(f"{path.name}.draft")
    with new_file.open("w", encoding="utf-8") as file:
        file.writelines(_line(event) for event in events)
        file.flush()
        os.fsync(file.fileno())
    new_file.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # makes the rename durable: otherwise the old file may reappear after a power failure
    finally:
        os.close(folder)


def _line(event: MentionEvent) -> str:
    return json.dumps({**asdict(event), "mentions": list(event.mentions), "at": event.at.isoformat()}) + "\n"


def _read(line: str) -> MentionEvent:
    """Raises ValueError."""
    try:
        fields = json.loads(line)
        return MentionEvent(**{**fields, "at": datetime.fromisoformat(fields["at"])})
    except (TypeError, KeyError) as error:  # valid JSON, but not an event of this version
        raise ValueError(f"not an event: {line!r}") from error

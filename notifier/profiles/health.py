"""One thing that was looked at, as the doctor tells it."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Literal

from notifier.domain.errors import NotifierError

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    name: str
    level: Level = "ok"
    detail: str
    remedy: str = ""
    value: float | int | str | None = None
    limit: float | int | str | None = None


# Looks at several engines side by side, for as long as a person waits: a frozen one holds up none of the rest.

WITHIN = 4.5
"""Seconds for all of them together."""

Look = Callable[[], Sequence[Inspection]]


def inspected(looks: Mapping[str, Look], within: float = WITHIN) -> Iterator[Inspection]:
    """What each found, in their order; of one that failed or hangs one finding, by the engine's name, that says so."""
    deadline = monotonic() + within
    going = {name: _Going(look) for name, look in looks.items()}
    for name, one in going.items():
        yield from one.found(name, max(0.0, deadline - monotonic()))


class _Going:
    def __init__(self, look: Look) -> None:
        self._look = look
        self._found: Sequence[Inspection] = ()
        self._wrong: Exception | None = None
        # Nobody waits for it when the process ends.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def found(self, name: str, within: float) -> Sequence[Inspection]:
        self._thread.join(within)
        if self._thread.is_alive():
            return [_away(name, f"No answer within {WITHIN:g} s.")]
        match self._wrong:
            case None:
                return [Inspection(name=name, detail="It answers, and lets us in."), *self._found]
            case NotifierError():
                return [_away(name, str(self._wrong))]
            case error:
                raise error

    def _run(self) -> None:
        try:
            self._found = self._look()
        except Exception as error:  # raised where somebody hears it
            self._wrong = error


def _away(name: str, detail: str) -> Inspection:
    remedy = "Start it, or mend its address and its user: `notifier settings --profile cluster` shows what holds here."
    return Inspection(name=name, level="fail", detail=detail, remedy=remedy)

"""Cells in Redis: fields of hashes that change by a rule of ours, and only from what the rule was shown.

The rules stay where they are tested, in Python: a cell is read, the rule makes the next one of it, and that is set if
nobody was faster; otherwise it goes once more from what stands now. A script would have to say each rule again.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple, TypeVar

from notifier.adapters.redis.calls import Argument, Command, ScriptCall, ask
from notifier.adapters.redis.connect import RedisClient
from notifier.adapters.redis.keys import LuaScript, kind_of, unwrap, wrap
from notifier.domain.errors import CacheUnavailable

TRIES = 64
"""Of as many who want the same cell at the same moment each has had it by then."""

T = TypeVar("T")


class Cell(NamedTuple):
    hash: str
    field: str


Step = Callable[[Cell, bytes], tuple[bytes | None, T]]
"""Of a cell and what it holds, nothing where it isn't: what it is to hold, None leaves it, and an answer."""


class SwappedKeys:
    """Thread-safe."""

    def __init__(self, client: RedisClient, lasting: timedelta) -> None:
        """A hash in which nothing changed for so long is forgotten."""
        self._client = client
        self._lasting = lasting // timedelta(milliseconds=1)
        self._swap = LuaScript.named("swap")

    def change(self, cells: Collection[Cell], step: Step[T]) -> Mapping[Cell, T]:
        """Each by itself; in two round trips, and two more while others change some of the same.

        A cell that holds garbage is empty to the rule, and is replaced by what the rule makes.
        """
        answers, left = dict[Cell, T](), cells
        for _ in range(TRIES):
            found = self._read(left)
            stepped = {cell: step(cell, self._value(cell, held)) for cell, held in found.items()}
            answers |= {cell: answer for cell, (_, answer) in stepped.items()}
            changes = {cell: wrap(cell.hash, new, cell.field) for cell, (new, _) in stepped.items() if new}
            left = self._swapped({cell: (found[cell] or b"", new) for cell, new in changes.items()})
            if not left:
                return answers
        raise CacheUnavailable("Others changed it again and again.")

    def _read(self, cells: Collection[Cell]) -> Mapping[Cell, bytes | None]:
        fields = _by_hash(cells)
        reading = [Command("hmget", name, ([cell.field for cell in some],)) for name, some in fields.items()]
        found = ask(self._client, reading)
        return {
            cell: held
            for some, answer in zip(fields.values(), found, strict=True)
            for cell, held in zip(some, answer, strict=True)
        }

    def _value(self, cell: Cell, held: bytes | None) -> bytes:
        if held is None:
            return b""
        value = unwrap(cell.hash, held, cell.field)
        if value is None:
            self._client.garbage.add(kind_of(cell.hash))
        return value or b""

    def _swapped(self, changes: Mapping[Cell, tuple[bytes, bytes]]) -> Sequence[Cell]:
        """Those that weren't: somebody was faster."""
        if not changes:
            return []
        fields = _by_hash(changes)
        calls = []
        for name, some in fields.items():
            given: list[Argument] = [part for cell in some for part in (cell.field, *changes[cell])]
            calls.append(ScriptCall(self._swap, name, (self._lasting, *given)))
        found = ask(self._client, calls)
        return [Cell(name, field.decode()) for name, answer in zip(fields, found, strict=True) for field in answer]


def _by_hash(cells: Collection[Cell]) -> Mapping[str, Sequence[Cell]]:
    found = defaultdict[str, list[Cell]](list)
    for cell in cells:
        found[cell.hash].append(cell)
    return found

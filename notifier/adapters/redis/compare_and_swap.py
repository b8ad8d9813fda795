"""Compare-and-swap updates of Redis hash fields (cells).

The update rules stay in Python, where they are tested; a Lua script would have to repeat each rule. A cell is read,
the rule computes the next value, and a script writes it if the cell is unchanged. Otherwise the update is retried
from the current value.
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
"""Attempts to swap a cell. With that many concurrent writers of one cell, each has succeeded by then."""

T = TypeVar("T")


class Cell(NamedTuple):
    hash: str
    field: str


Step = Callable[[Cell, bytes], tuple[bytes | None, T]]
"""Update rule. It receives a cell and its current value (empty if absent).

It returns the new value (None leaves the cell unchanged) and a result for the caller.
"""


class SwappedKeys:
    """Hashes whose fields change by compare-and-swap. Thread-safe."""

    def __init__(self, client: RedisClient, lasting: timedelta) -> None:
        """Create the hashes with a TTL of `lasting` after their last change."""
        self._client = client
        self._lasting = lasting // timedelta(milliseconds=1)
        self._swap = LuaScript.named("swap")

    def change(self, cells: Collection[Cell], step: Step[T]) -> Mapping[Cell, T]:
        """Apply the rule to each cell independently, and return its results.

        This takes two round trips, and two more for each conflict with a concurrent change. A cell that holds garbage
        looks empty to the rule, and is replaced by the rule's new value. Raises CacheUnavailable.
        """
        answers, left = dict[Cell, T](), cells
        for _ in range(TRIES):
            current = self._read(left)
            stepped = {cell: step(cell, self._value(cell, held)) for cell, held in current.items()}
            answers |= {cell: answer for cell, (_, answer) in stepped.items()}
            changes = {cell: wrap(cell.hash, new, cell.field) for cell, (new, _) in stepped.items() if new}
            left = self._swapped({cell: (current[cell] or b"", new) for cell, new in changes.items()})
            if not left:
                return answers
        raise CacheUnavailable("Others changed it again and again.")

    def _read(self, cells: Collection[Cell]) -> Mapping[Cell, bytes | None]:
        fields = _by_hash(cells)
        reading = [Command("hmget", name, ([cell.field for cell in group],)) for name, group in fields.items()]
        answers = ask(self._client, reading)
        return {
            cell: held
            for group, answer in zip(fields.values(), answers, strict=True)
            for cell, held in zip(group, answer, strict=True)
        }

    def _value(self, cell: Cell, held: bytes | None) -> bytes:
        if held is None:
            return b""
        value = unwrap(cell.hash, held, cell.field)
        if value is None:
            self._client.garbage.add(kind_of(cell.hash))
        return value or b""

    def _swapped(self, changes: Mapping[Cell, tuple[bytes, bytes]]) -> Sequence[Cell]:
        """Swap the cells, and return those that failed because a concurrent writer changed them first."""
        if not changes:
            return []
        fields = _by_hash(changes)
        calls = []
        for name, group in fields.items():
            arguments: list[Argument] = [argument for cell in group for argument in (cell.field, *changes[cell])]
            calls.append(ScriptCall(self._swap, name, (self._lasting, *arguments)))
        answers = ask(self._client, calls)
        return [Cell(name, field.decode()) for name, answer in zip(fields, answers, strict=True) for field in answer]


def _by_hash(cells: Collection[Cell]) -> Mapping[str, Sequence[Cell]]:
    by_hash = defaultdict[str, list[Cell]](list)
    for cell in cells:
        by_hash[cell.hash].append(cell)
    return by_hash

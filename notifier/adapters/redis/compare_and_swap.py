"""Compare-and-swap updates of Redis hash fields (cells).

The update rules stay in Python, where they are tested; a Lua script would have to repeat each rule. A cell is read,
the rule computes the next value, and a script writes it if the cell is unchanged. Otherwise the update is retried
from the current value.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple, TypeVar

from notifier.adapters.redis.calls import Argument, Command, ScriptCall, run_calls
from notifier.adapters.redis.connect import RedisClient
from notifier.adapters.redis.keys import LuaScript, kind_of, unwrap, wrap
from notifier.domain.errors import CacheUnavailable

TRIES = 64
"""Attempts to swap a cell. With that many concurrent writers of one cell, each has succeeded by then."""

T = TypeVar("T")


class HashField(NamedTuple):
    hash: str
    field: str


Step = Callable[[HashField, bytes], tuple[bytes | None, T]]
"""Update rule. It receives a cell and its current value (empty if absent).

It returns the new value (None leaves the cell unchanged) and a result for the caller.
"""


class CasHashes:
    """Hashes whose fields change by compare-and-swap. Thread-safe."""

    def __init__(self, client: RedisClient, lasting: timedelta) -> None:
        """Create the hashes with a TTL of `lasting` after their last change."""
        self._client = client
        self._lasting = lasting // timedelta(milliseconds=1)
        self._swap = LuaScript.named("compare_and_swap")

    def change(self, cells: Collection[HashField], step: Step[T]) -> Mapping[HashField, T]:
        """Apply the rule to each cell independently, and return its results.

        This takes two round trips, and two more for each conflict with a concurrent change. A cell that holds garbage
        looks empty to the rule, and is replaced by the rule's new value. Raises CacheUnavailable.
        """
        answers, remaining = dict[HashField, T](), cells
        for _ in range(TRIES):
            current = self._read(remaining)
            stepped = {cell: step(cell, self._value(cell, held)) for cell, held in current.items()}
            answers |= {cell: answer for cell, (_, answer) in stepped.items()}
            changes = {cell: wrap(cell.hash, new, cell.field) for cell, (new, _) in stepped.items() if new}
            remaining = self._swap_cells({cell: (current[cell] or b"", new) for cell, new in changes.items()})
            if not remaining:
                return answers
        raise CacheUnavailable("Other processes keep changing the value.")

    def _read(self, cells: Collection[HashField]) -> Mapping[HashField, bytes | None]:
        fields = _by_hash(cells)
        reading = [Command("hmget", name, ([cell.field for cell in group],)) for name, group in fields.items()]
        answers = run_calls(self._client, reading)
        return {
            cell: held
            for group, answer in zip(fields.values(), answers, strict=True)
            for cell, held in zip(group, answer, strict=True)
        }

    def _value(self, cell: HashField, held: bytes | None) -> bytes:
        if held is None:
            return b""
        value = unwrap(cell.hash, held, cell.field)
        if value is None:
            self._client.garbage.add(kind_of(cell.hash))
        return value or b""

    def _swap_cells(self, changes: Mapping[HashField, tuple[bytes, bytes]]) -> Sequence[HashField]:
        """Swap the cells, and return those that failed because a concurrent writer changed them first."""
        if not changes:
            return []
        fields = _by_hash(changes)
        calls = []
        for name, group in fields.items():
            arguments: list[Argument] = [argument for cell in group for argument in (cell.field, *changes[cell])]
            calls.append(ScriptCall(self._swap, name, (self._lasting, *arguments)))
        answers = run_calls(self._client, calls)
        return [
            HashField(name, field.decode()) for name, answer in zip(fields, answers, strict=True) for field in answer
        ]


def _by_hash(cells: Collection[HashField]) -> Mapping[str, Sequence[HashField]]:
    by_hash = defaultdict[str, list[HashField]](list)
    for cell in cells:
        by_hash[cell.hash].append(cell)
    return by_hash

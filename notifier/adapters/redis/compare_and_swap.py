"""Compare-and-swap updates of Redis hash fields (cells).

The update rules stay in Python, where they are tested; a Lua script would have to repeat each rule. A cell is read,
the rule computes the next value, and a script writes it if the cell is unchanged. If it has changed, the update is
retried with the current value.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple, TypeVar

from notifier.adapters.redis.calls import Argument, Command, ScriptCall, run_calls
from notifier.adapters.redis.connect import RedisClient
from notifier.adapters.redis.keys import LuaScript, kind_of, unwrap, wrap
from notifier.domain.errors import CacheUnavailable

MAX_ATTEMPTS = 64
"""Attempts to swap a cell. Each round of conflicts has one winner, so this suffices for 64 concurrent writers."""

T = TypeVar("T")


class HashField(NamedTuple):
    hash: str
    field: str


UpdateRule = Callable[[HashField, bytes], tuple[bytes | None, T]]
"""Update rule. It receives a cell and its current value (empty if absent).

It returns the new value (None leaves the cell unchanged) and a result for the caller.
"""


class CasHashes:
    """Hashes whose fields change by compare-and-swap. Thread-safe."""

    def __init__(self, client: RedisClient, ttl: timedelta) -> None:
        """Create the hashes with a TTL of `ttl` after their last change."""
        self._client = client
        self._ttl_ms = ttl // timedelta(milliseconds=1)
        self._swap_script = LuaScript.load("compare_and_swap")

    def change(self, cells: Collection[HashField], rule: UpdateRule[T]) -> Mapping[HashField, T]:
        """Apply the rule to each cell independently, and return its results.

        This takes two round trips, and two more after each conflict with a concurrent change. The rule sees a cell with
        garbage as empty, and its new value replaces the garbage. Raises CacheUnavailable.
        """
        answers, remaining = dict[HashField, T](), cells
        for _ in range(MAX_ATTEMPTS):
            current = self._read(remaining)
            results = {cell: rule(cell, self._value(cell, stored)) for cell, stored in current.items()}
            answers |= {cell: answer for cell, (_, answer) in results.items()}
            changes = {cell: wrap(cell.hash, new, cell.field) for cell, (new, _) in results.items() if new}
            remaining = self._swap_cells({cell: (current[cell] or b"", new) for cell, new in changes.items()})
            if not remaining:
                return answers
        raise CacheUnavailable("Other processes keep changing the value.")

    def _read(self, cells: Collection[HashField]) -> Mapping[HashField, bytes | None]:
        fields = _by_hash(cells)
        commands = [Command("hmget", name, ([cell.field for cell in group],)) for name, group in fields.items()]
        answers = run_calls(self._client, commands)
        return {
            cell: stored
            for group, answer in zip(fields.values(), answers, strict=True)
            for cell, stored in zip(group, answer, strict=True)
        }

    def _value(self, cell: HashField, stored: bytes | None) -> bytes:
        if stored is None:
            return b""
        value = unwrap(cell.hash, stored, cell.field)
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
            calls.append(ScriptCall(self._swap_script, name, (self._ttl_ms, *arguments)))
        answers = run_calls(self._client, calls)
        return [
            HashField(name, field.decode()) for name, answer in zip(fields, answers, strict=True) for field in answer
        ]


def _by_hash(cells: Collection[HashField]) -> Mapping[str, Sequence[HashField]]:
    by_hash = defaultdict[str, list[HashField]](list)
    for cell in cells:
        by_hash[cell.hash].append(cell)
    return by_hash

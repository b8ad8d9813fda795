"""Compare-and-set updates of Redis hash fields (cells).

The update rules stay in Python. A script writes the new value if the cell is unchanged since it was read; otherwise
the rule is applied to the current value.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple, TypeVar

from notifier.adapters.redis.connect import RedisClient
from notifier.adapters.redis.keys_checksums_lua_scripts import LuaScript, kind_of, unwrap, wrap
from notifier.adapters.redis.pipelined_calls import Argument, Command, ScriptCall, run_calls
from notifier.domain.errors import CacheUnavailable

MAX_ATTEMPTS = 64
"""In each conflict one writer succeeds, so this is enough for 64 concurrent changes of a cell."""

T = TypeVar("T")


class HashCell(NamedTuple):
    """One field of one hash."""

    hash: str
    field: str


UpdateRule = Callable[[HashCell, bytes], tuple[bytes | None, T]]
"""Receives a cell and its value (empty if absent). Returns the new value (None: unchanged) and a result."""


class CasHashes:
    """Hashes whose fields change by compare-and-set. Thread-safe."""

    def __init__(self, client: RedisClient, ttl: timedelta) -> None:
        """Each hash expires `ttl` after its last change."""
        self._client = client
        self._ttl_ms = ttl // timedelta(milliseconds=1)
        self._set_script = LuaScript.load("compare_and_set")

    def change(self, cells: Collection[HashCell], rule: UpdateRule[T]) -> Mapping[HashCell, T]:
        """Apply the rule to each cell, and return the results.

        After a conflict with a concurrent change, the rule is applied again. A cell with garbage counts as empty.
        Raises CacheUnavailable.
        """
        results, remaining = dict[HashCell, T](), cells
        for _ in range(MAX_ATTEMPTS):
            current = self._read(remaining)
            outcomes = {cell: rule(cell, self._value(cell, stored)) for cell, stored in current.items()}
            results |= {cell: result for cell, (_, result) in outcomes.items()}
            new_values = {cell: wrap(cell.hash, new, cell.field) for cell, (new, _) in outcomes.items() if new}
            remaining = self._set_if_unchanged({cell: (current[cell] or b"", new) for cell, new in new_values.items()})
            if not remaining:
                return results
        raise CacheUnavailable("Other writers keep changing the value.")

    def _read(self, cells: Collection[HashCell]) -> Mapping[HashCell, bytes | None]:
        cells_by_hash = _by_hash(cells)
        commands = [Command("hmget", name, ([cell.field for cell in group],)) for name, group in cells_by_hash.items()]
        answers = run_calls(self._client, commands)
        return {
            cell: stored
            for group, answer in zip(cells_by_hash.values(), answers, strict=True)
            for cell, stored in zip(group, answer, strict=True)
        }

    def _value(self, cell: HashCell, stored: bytes | None) -> bytes:
        if stored is None:
            return b""
        value = unwrap(cell.hash, stored, cell.field)
        if value is None:
            self._client.garbage.add(kind_of(cell.hash))
        return value or b""

    def _set_if_unchanged(self, changes: Mapping[HashCell, tuple[bytes, bytes]]) -> Sequence[HashCell]:
        """Set each unchanged cell, and return the cells that have changed.

        `changes` has the expected and the new value of each cell.
        """
        if not changes:
            return []
        cells_by_hash = _by_hash(changes)
        calls = []
        for name, group in cells_by_hash.items():
            arguments: list[Argument] = [argument for cell in group for argument in (cell.field, *changes[cell])]
            calls.append(ScriptCall(self._set_script, name, (self._ttl_ms, *arguments)))
        answers = run_calls(self._client, calls)
        return [
            HashCell(name, field.decode())
            for name, answer in zip(cells_by_hash, answers, strict=True)
            for field in answer
        ]


def _by_hash(cells: Collection[HashCell]) -> Mapping[str, Sequence[HashCell]]:
    by_hash = defaultdict[str, list[HashCell]](list)
    for cell in cells:
        by_hash[cell.hash].append(cell)
    return by_hash

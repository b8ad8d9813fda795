"""The outside check of the alerts: the windows that phones rang in, by the console's lines, against the formulas."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from notifier.domain.audience import Tier
from notifier.domain.bits import SHARD_MEMBERS
from notifier.domain.burst import Burst
from notifier.domain.ledger import Account, Fact
from notifier.domain.plan import PUSHED_TIERS
from notifier.domain.reach import Verdict
from notifier.domain.slice import Slice, Step
from notifier.testing.finding import Finding, agreement
from notifier.testing.world import Flags


@dataclass(frozen=True, slots=True)
class Rang:
    """A line of the console: one window. Its first person tells which, because windows share nobody."""

    burst: str
    collapse_id: str
    people: int
    first: int


def rang(files: Iterable[Path]) -> Iterator[Rang]:
    for file in files:
        with file.open("rb") as lines:
            for one in map(json.loads, lines):
                yield Rang(one["burst"], one["collapse_id"], one["people"], one["first"][0])


@dataclass(slots=True, kw_only=True)
class Windows:
    """Who must be told of each burst, a window for each of its shards and tiers: its first person and how many."""

    expected: dict[str, dict[tuple[Tier, int], tuple[int, int]]] = field(default_factory=lambda: defaultdict(dict))

    def expect(self, burst: Burst, shard: int, tiers: Mapping[Tier, Flags], phones: Flags) -> None:
        for tier in PUSHED_TIERS if burst.verdict is Verdict.ALL else ():
            alerted = np.flatnonzero(tiers[tier] & phones)
            if len(alerted):
                first = int(alerted[0]) + shard * SHARD_MEMBERS
                self.expected[str(burst.key)][tier, shard] = (first, len(alerted))

    def finding(self, lines: Iterable[Rang], accounts: Iterable[Account]) -> Finding:
        """A slice that is done rang for all of them; nobody else was told; a repeated alert replaces itself."""
        times = Counter(lines)
        wrong = [*self._silent(times, accounts), *self._strange(times), *_beside_itself(times)]
        found = agreement("alerts_equal_oracle", wrong, n=sum(map(len, self.expected.values())))
        if not found.ok:
            return found
        people, again = sum(one.people for one in times), sum(times.values()) - len(times)
        detail = f"{people:,} people in {len(times):,} windows, {again} of them sent again"
        return Finding(name=found.name, ok=True, value=0, limit=0, unit=found.unit, n=found.n, detail=detail)

    def _silent(self, times: Mapping[Rang, int], accounts: Iterable[Account]) -> Iterator[str]:
        heard = {(one.burst, one.first) for one in times}
        for account in accounts:
            for piece, standing in account.standings.items():
                if piece.step is Step.PUSH and standing.ended and standing.ended.fact is Fact.DONE:
                    yield from (f"{piece}: shard {shard} never rang" for shard in self._unheard(piece, heard))

    def _unheard(self, piece: Slice, heard: set[tuple[str, int]]) -> Iterator[int]:
        windows = self.expected.get(str(piece.burst), {})
        for shard in piece.shards:
            window = windows.get((piece.tier, shard))
            if window and (str(piece.burst), window[0]) not in heard:
                yield shard

    def _strange(self, times: Mapping[Rang, int]) -> Iterator[str]:
        for one in times:
            if (one.first, one.people) not in self.expected.get(one.burst, {}).values():
                yield f"{one.burst}: nobody knows the window of {one.people} people from {one.first}"


def _beside_itself(times: Mapping[Rang, int]) -> Iterator[str]:
    ids: dict[str, set[str]] = defaultdict(set)
    for one in times:
        ids[one.burst].add(one.collapse_id)
    yield from (f"{burst} has alerts that lie beside each other" for burst, found in ids.items() if len(found) > 1)

"""The outside check of the alerts: what arrived on phones, by the fake providers' lines, against the formulas."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np

from notifier.devkit.check.finding import Finding, agreement
from notifier.devkit.fake_providers.devices import member_of
from notifier.devkit.fixture.users import platform
from notifier.devkit.fixture.world import Flags
from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.snapshot import PUSHED
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.ledger import BurstProgress, Fact
from notifier.domain.delivery.slice import Step
from notifier.domain.ids import BurstKey, Member
from notifier.domain.push.alert import alert


@dataclass(frozen=True, slots=True, kw_only=True)
class Rang:
    """A line of the fakes: one alert that arrived on one phone."""

    at: datetime
    platform: str
    to: str
    place: str
    """On the phone: what comes later takes it over."""
    again: bool = False
    """The very alert had come before: what is shown stays one."""

    @property
    def member(self) -> Member | None:
        return member_of(self.to)


def rang(files: Iterable[Path]) -> Iterator[Rang]:
    """Whatever whole lines there are: the last one may be half written, and where a fake was killed over a line no
    answer was given, so that it comes again."""
    for file in files:
        with file.open("rb") as lines:
            for line in lines:
                with suppress(ValueError):
                    one = json.loads(line)
                    at = datetime.fromisoformat(one["at"])
                    yield Rang(at=at, platform=one["platform"], to=one["to"], place=one["place"], again=one["again"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """What is judged beside who was told of what; the defaults are for a storm in which nothing was killed."""

    caps: int | None = None
    """Alerts that a person gets within an hour, 0 being no limit, and of one tweet one alone; None: no such rules."""
    once: bool = True
    """No alert comes twice. Where a process was killed some do, and take the place of the first."""
    counted: bool = True
    """What counts for the caps was never lost: nobody gets more."""


Heard = Mapping[Member, Mapping[BurstKey, int]]
"""How often each person's phone rang for each burst."""


@dataclass(slots=True, kw_only=True)
class Alerts:
    """Who must be told of each burst, by tier and shard: whoever is in a tier with alerts and has a device."""

    expected: dict[BurstKey, dict[tuple[Tier, int], frozenset[Member]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    bursts: dict[str, Burst] = field(default_factory=dict)
    """By what the alert of each is replaced by."""

    def expect(self, burst: Burst, shard: int, tiers: Mapping[Tier, Flags], phones: Flags) -> None:
        self.bursts[alert(burst).collapse_id] = burst
        for tier in PUSHED if burst.verdict is Verdict.ALL else ():
            alerted = np.flatnonzero(tiers[tier] & phones) + shard * SHARD_MEMBERS
            if len(alerted):
                self.expected[burst.key][tier, shard] = frozenset(map(Member, alerted.tolist()))

    def finding(self, lines: Collection[Rang], accounts: Iterable[BurstProgress], promised: Promised) -> Finding:
        """Slices that are done rang for all of theirs, on the phone that each of them has, and nobody else was told."""
        heard = self._heard(lines)
        wrong = [
            *self._strange(lines),
            *self._silent(heard, accounts, promised.caps),
            *(self._beyond(heard, promised.caps) if promised.caps is not None and promised.counted else ()),
        ]
        people = sum(len(some) for windows in self.expected.values() for some in windows.values())
        again = sum(times - 1 for told in heard.values() for times in told.values())
        if again and promised.once:
            wrong.append(f"{again} alerts came again, though nothing was killed")
        found = agreement("alerts_equal_oracle", wrong, n=people)
        if not found.ok:
            return found
        detail = f"{len(lines):,} alerts on {len(heard):,} phones, {again} of them sent again"
        return Finding(name=found.name, ok=True, value=0, limit=0, unit=found.unit, n=found.n, detail=detail)

    def vips(self, since: datetime) -> Mapping[str, frozenset[Member]]:
        """Who must be told in P0, by place, of all bursts that were accepted since then."""
        bursts = {place: burst for place, burst in self.bursts.items() if burst.accepted_at >= since}
        return {place: self._told(burst.key, [Tier.P0]) for place, burst in bursts.items()}

    def vip_waits(self, lines: Iterable[Rang], since: datetime) -> list[float]:
        """Seconds from the acceptance of each burst's opener until the alert was with the provider, of every VIP; of a
        repeated one, the first."""
        vips, first = self.vips(since), dict[tuple[str, Member], float]()
        for line in sorted(lines, key=lambda one: one.at):
            member = line.member
            if member is not None and member in vips.get(line.place, ()):
                wait = (line.at - self.bursts[line.place].accepted_at).total_seconds()
                first.setdefault((line.place, member), wait)
        return list(first.values())

    def _told(self, burst: BurstKey, tiers: Collection[Tier]) -> frozenset[Member]:
        windows = self.expected.get(burst, {})
        return frozenset[Member]().union(*(some for (tier, _), some in windows.items() if tier in tiers))

    def _heard(self, lines: Iterable[Rang]) -> Heard:
        heard: dict[Member, Counter[BurstKey]] = defaultdict(Counter)
        for line in lines:
            burst, member = self.bursts.get(line.place), line.member
            if burst is not None and member is not None:
                heard[member][burst.key] += 1
        return heard

    def _strange(self, lines: Iterable[Rang]) -> Iterator[str]:
        told = {key: self._told(key, PUSHED) for key in self.expected}
        for line in lines:
            burst, member = self.bursts.get(line.place), line.member
            if burst is None:
                yield f"{line.to} rang for {line.place}, which is no burst's"
            elif member is None or member not in told.get(burst.key, ()):
                yield f"{burst.key}: {line.to} rang, and nobody is to be told there"
            elif line.platform != platform(member):
                yield f"{burst.key}: {line.to} rang on {line.platform}"

    def _silent(self, heard: Heard, accounts: Iterable[BurstProgress], caps: int | None) -> Iterator[str]:
        tweets = {burst.key: burst.tweet for burst in self.bursts.values()}
        for burst, member in self._due(accounts):
            told = heard.get(member, {})
            if burst in told:
                continue
            # Whichever of the two came first: pushes keep no order.
            of = {tweets[other] for other in told}
            if caps is None or not (tweets[burst] in of or 0 < caps <= len(of)):
                yield f"{burst}: u{member} was never told"

    def _due(self, accounts: Iterable[BurstProgress]) -> Iterator[tuple[BurstKey, Member]]:
        for account in accounts:
            windows = self.expected.get(account.plan.burst, {})
            for piece, standing in account.standings.items():
                if piece.step is not Step.ROWS and standing.ended and standing.ended.fact is Fact.DONE:
                    for shard in piece.shards:
                        due = windows.get((piece.tier, shard), ())
                        yield from ((piece.burst, m) for m in due if platform(m) is piece.step.platform)

    def _beyond(self, heard: Heard, caps: int) -> Iterator[str]:
        tweets = {burst.key: burst.tweet for burst in self.bursts.values()}
        for member, told in heard.items():
            if caps and len(told) > caps:
                yield f"u{member} was told of {len(told)} bursts, and {caps} are the most"
            yield from (
                f"u{member} was told {times} times of the tweet {tweet}"
                for tweet, times in Counter(tweets[burst] for burst in told).items()
                if times > 1
            )

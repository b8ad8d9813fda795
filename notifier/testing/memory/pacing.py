"""What bounds alerts, in memory; each can be wiped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.circuit_breaker import LeftAlone
from notifier.domain.push.frequency_cap import Caps, Cause, History, Ruling, judged, spent
from notifier.domain.push.rate_limit import TERMS, Pace, Terms, drawn, told
from notifier.ports.clock import Clock


@dataclass(slots=True)
class MemoryPaces:
    terms: Mapping[Platform, Terms] = field(default_factory=lambda: TERMS)
    paces: dict[Platform, Pace] = field(default_factory=dict)

    def wipe(self) -> None:
        self.paces.clear()

    def draw(self, platform: Platform, wanted: int, *, urgent: bool, ease: float, now: datetime) -> int:
        before, terms = self.paces.get(platform), self.terms[platform]
        self.paces[platform], granted = drawn(before, terms, now, wanted, urgent=urgent, ease=ease)
        return granted

    def tell(self, platform: Platform, *, refused: int, slow: bool, now: datetime) -> None:
        before, terms = self.paces.get(platform), self.terms[platform]
        self.paces[platform] = told(before, terms, now, refused=refused, slow=slow)


@dataclass(slots=True)
class MemoryCaps:
    caps: Caps = field(default_factory=Caps)
    days: dict[Member, History] = field(default_factory=dict)

    def wipe(self) -> None:
        self.days.clear()

    def spend(self, burst: BurstKey, tweet: str, people: Sequence[Member], now: datetime) -> Mapping[Member, Ruling]:
        cause = Cause.of(burst, tweet)
        found = {member: judged(self.days.get(member, ()), cause, now, self.caps) for member in people}
        for member, ruling in found.items():
            if ruling is Ruling.NEW:
                self.days[member] = spent(self.days.get(member, ()), cause, now, self.caps)
        return found


@dataclass(slots=True)
class MemoryTabReport:
    clock: Clock
    said: dict[str, tuple[timedelta, datetime]] = field(default_factory=dict)

    def wipe(self) -> None:
        self.said.clear()

    def tell(self, process: str, p99: timedelta, lasting: timedelta) -> None:
        self.said[process] = p99, self.clock.now() + lasting

    def worst(self) -> timedelta | None:
        return max((p99 for p99, until in self.said.values() if self.clock.now() < until), default=None)


@dataclass(slots=True)
class MemoryLineReport:
    clock: Clock
    said: dict[str, tuple[LeftAlone, datetime]] = field(default_factory=dict)

    def wipe(self) -> None:
        self.said.clear()

    def tell(self, line: str, left: LeftAlone, lasting: timedelta) -> None:
        self.said[line] = left, self.clock.now() + lasting

    def told(self) -> Mapping[str, LeftAlone]:
        return {line: left for line, (left, until) in self.said.items() if self.clock.now() < until}

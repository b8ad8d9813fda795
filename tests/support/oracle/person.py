"""What one person decided and is, by all that was said of it, in whatever order."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Self

BEFORE_ALL = datetime(1970, 1, 1, tzinfo=UTC)
FOR_EVER = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """By who keeps the graph: of a pair the highest sequence counts, and of two alike the leave, or else the later."""

    person: str
    owner: str
    sequence: int
    at: datetime
    left: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """By the person: about each of the two things the latest counts."""

    person: str
    owner: str
    at: datetime
    volume: str | None = None
    since: datetime | None = None
    """What opens from then on is wanted; `FOR_EVER` of a mute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arranged:
    """The same of everything."""

    person: str
    at: datetime
    volume: str | None = None
    since: datetime | None = None
    """What opens from then on is wanted of everybody."""
    default_since: datetime | None = None
    """Of those of whom nothing else was said."""
    alerts: bool | None = None
    quiet: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parted:
    """By who keeps the graph, to either of the two: of an ordered pair the highest sequence counts, and of two alike
    what parts them longer."""

    person: str
    other: str
    theirs: bool
    """It is the other who blocks."""
    sequence: int
    until: datetime
    """From then on the two see each other again, as far as this block goes; `FOR_EVER` while it stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phoned:
    """By an app, or by who serves devices, of whose it is or was: of a device the highest rank counts."""

    person: str
    device: str
    rank: tuple[datetime, bool, int]
    has: bool
    """The person, from then on."""


Saying = Told | Asked | Arranged | Parted | Phoned


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """What one person decided and is, at one moment."""

    name: str
    member: int
    deleted: bool = False
    follows: Mapping[str, datetime] = field(default_factory=dict)
    """By owner: since when it is visible; those whom the person muted included."""
    muted: frozenset[str] = frozenset()
    volume: Mapping[str, str] = field(default_factory=dict)
    """Of those of whom the person said so."""
    overall: str = "all"
    """Of all the others; `off` is of everybody."""
    alerts: bool = True
    asked: bool = False
    """For alerts, in so many words."""
    quiet: tuple[int, int] = (0, 0)
    """From one full hour of the day to another, by UTC, the phone is silent; none where both are the same."""
    apart: Mapping[tuple[str, bool], datetime] = field(default_factory=dict)
    """By the other, and whether it is the other who blocks: until when."""
    vip: bool = False
    push: bool = False
    idle: timedelta = timedelta(days=365)
    since: Mapping[str, datetime] = field(default_factory=dict)
    """By owner, where a mute or a volume was left: what opens from then on is wanted."""
    overall_since: datetime = BEFORE_ALL
    default_since: datetime = BEFORE_ALL

    def after(self, sayings: Collection[Saying]) -> Self:
        """With all that was said of the person, and by whom, in whatever order."""
        if not sayings:
            return self
        told = [one for one in sayings if isinstance(one, Told) and one.person == self.name]
        asked = [one for one in sayings if isinstance(one, Asked) and one.person == self.name]
        follows = dict(self.follows)
        for one in sorted(told, key=lambda one: (one.sequence, one.left, one.at)):
            follows.pop(one.owner, None)
            if not one.left:
                follows[one.owner] = one.at
        volume, since = dict(self.volume), dict.fromkeys(self.muted, FOR_EVER) | dict(self.since)
        for asking in sorted(asked, key=lambda one: one.at):
            volume |= {} if asking.volume is None else {asking.owner: asking.volume}
            since |= {} if asking.since is None else {asking.owner: asking.since}
        muted = frozenset(owner for owner, moment in since.items() if moment == FOR_EVER)
        found = replace(self, follows=follows, volume=volume, muted=muted, since=since)
        return found._arranged(sayings)._parted(sayings)._phoned(sayings)

    def _phoned(self, sayings: Collection[Saying]) -> Self:
        """Of whom nothing was said has what was loaded."""
        own = [one for one in sayings if isinstance(one, Phoned) and one.person == self.name]
        last = {one.device: one.has for one in sorted(own, key=lambda one: one.rank)}
        return replace(self, push=any(last.values())) if last else self

    def _parted(self, sayings: Collection[Saying]) -> Self:
        of_others = [one for one in sayings if isinstance(one, Parted) and one.person == self.name]
        last = sorted(of_others, key=lambda one: (one.sequence, one.until))
        return replace(self, apart={**self.apart, **{(one.other, one.theirs): one.until for one in last}})

    def _arranged(self, sayings: Collection[Saying]) -> Self:
        of_everything = [one for one in sayings if isinstance(one, Arranged) and one.person == self.name]
        found = self
        for one in sorted(of_everything, key=lambda one: one.at):
            found = replace(
                found,
                overall=one.volume or found.overall,
                overall_since=one.since or found.overall_since,
                default_since=one.default_since or found.default_since,
                alerts=found.alerts if one.alerts is None else one.alerts,
                asked=found.asked if one.alerts is None else one.alerts,
                quiet=one.quiet or found.quiet,
            )
        return found

    def sleeps(self, now: datetime) -> bool:
        """By full hours: whoever sleeps from ten to six sleeps in the twenty-third."""
        start, end = self.quiet
        return (now.hour - start) % 24 < (end - start) % 24

    @property
    def blocked(self) -> frozenset[str]:
        """Either way."""
        return frozenset(other for (other, _), until in self.apart.items() if until == FOR_EVER)

    def wanted_of(self, owner: str) -> str:
        """How much. The owner's own word goes first, but for who wants nothing at all."""
        own = self.volume.get(owner, "default")
        return self.overall if own == "default" or self.overall == "off" else own

    def wants_since(self, owner: str) -> datetime:
        own_word = self.volume.get(owner, "default") != "default"
        everything = self.overall_since if own_word else max(self.overall_since, self.default_since)
        reunited = max((until for (other, _), until in self.apart.items() if other == owner), default=BEFORE_ALL)
        return max(self.follows[owner], self.since.get(owner, BEFORE_ALL), everything, reunited)

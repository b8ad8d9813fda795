"""The alert on the phone: who is to be spared it, and the durable record of what was sent."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from notifier.domain.audience.bitmap import Bits, nobody
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.alert import Alert
from notifier.domain.push.circuit_breaker import LeftAlone
from notifier.domain.push.device import Device, DeviceId, DeviceWord, Holding
from notifier.domain.push.frequency_cap import Ruling
from notifier.domain.push.receipt import Receipt
from notifier.domain.push.send_log import Sending, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Spare:
    """Of one shard's members; those of whom it says nothing may be alerted now."""

    never: Bits = field(default_factory=nobody)
    """To whom it isn't pushable, nor will be."""
    asleep: Bits = field(default_factory=nobody)
    """Others, who have quiet hours now."""
    until: datetime | None = None
    """When to look again: as the first of those end, or at the quarter of an hour that follows."""


class Spared(Protocol):
    """Whose phone stays silent: what people did since the seal, read in ranges and never person by person."""

    def read(self, burst: Burst, shards: Collection[int], now: datetime) -> Mapping[int, Spare]:
        """Of each shard's members who follow the burst's subject, or followed it once, those to whom it isn't pushable
        now, and those whose account was deleted. Who sleeps and is to be spared for another reason, too, is told of
        as one who is never alerted.

        Says nothing about others: a seal never names them. Reads what stands now, of all shards together; the cost
        grows with those who have such a fact (a mark, a block of the opener or the account, a later follow, a mute, a
        word of everything), not with the shards. Raises StoreUnavailable: without an answer no phone may ring.
        """
        ...


class SendLog(Protocol):
    """Durable for as long as a burst may be delivered. One writer of each sending, the holder of the slice's claim.
    Raises StoreUnavailable, and Full where it writes."""

    def read(self, burst: BurstKey, platform: Platform, shards: Collection[int]) -> Mapping[Sending, Sequence[Window]]:
        """The windows of those shards' sendings, of every tier, in their order; without sendings that have none."""
        ...

    def intend(self, windows: Sequence[tuple[Sending, Window]]) -> Sequence[bool]:
        """To be called before they are sent: writes each unless its sending has one of this number, and says which were
        written. One that wasn't is another's: the caller has lost the claim."""
        ...

    def close(self, windows: Sequence[tuple[Sending, Window]]) -> None:
        """To be called after they were sent, with what was missed. Said again, the last word stands."""
        ...


# What bounds alerts: each provider's pace, who is left alone, each person's caps, and how slow the tab is.


class Paces(Protocol):
    """One pace for each provider, of all workers together: the rule is `domain/pace`.

    Of all who draw or tell at the same moment none loses another's. Not durable: what was forgotten begins anew, at
    the floor. Raises CacheUnavailable, and then nobody knows whether something was drawn.
    """

    def draw(self, platform: Platform, wanted: int, *, urgent: bool, ease: float, now: datetime) -> int:
        """How many alerts may go now, 0 to `wanted`. Drawn is spent, sent or not; who gets less comes again after some
        hundredths of a second."""
        ...

    def tell(self, platform: Platform, *, refused: int, slow: bool, now: datetime) -> None:
        """How many the provider refused for its quota, and whether it was slow to answer. Where neither is so, nobody
        is asked."""
        ...


class FrequencyCapStore(Protocol):
    """Each person's alerts of the last day: the rule is `domain/caps`."""

    def spend(self, burst: BurstKey, tweet: str, people: Sequence[Member], now: datetime) -> Mapping[Member, Ruling]:
        """What holds for each of them, up to some thousands of one shard; the new ones are counted in the same step.

        A few round trips, whoever they are. Said twice it spends once: of somebody for whom it was new it then says
        AGAIN. Of two who say different bursts of one person at the same moment neither misses the other's. Not durable:
        what is forgotten is as if it had not rung. Raises CacheUnavailable, and then some may be counted.
        """
        ...


class TabReport(Protocol):
    """The word of those who answer people to those who alert them. Raises CacheUnavailable."""

    def tell(self, process: str, p99: timedelta, lasting: timedelta) -> None:
        """How long pages take; the last word of each process counts, and is forgotten after `lasting`."""
        ...

    def worst(self) -> timedelta | None:
        """Of all processes; None when none of them said anything lately, or nothing that can be read."""
        ...


class LineReport(Protocol):
    """The word of those who alert to whoever watches: which providers and push services are left alone. Nobody decides
    by it. Raises CacheUnavailable."""

    def tell(self, line: str, left: LeftAlone, lasting: timedelta) -> None:
        """Of several processes the last word about a line counts; it is forgotten after `lasting`."""
        ...

    def told(self) -> Mapping[str, LeftAlone]:
        """By line, without what was forgotten or can't be read."""
        ...


# A provider: Apple, Google or a browser's push service, that rings a person's devices.


class Provider(Protocol):
    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[tuple[Device, Receipt]]:
        """Each device with what became of its alert, in the order in which that is known; devices are taken as there is
        room for them on their way.

        Blocks. Never waits to try again, and never tries again by itself what may have arrived: that is the caller's,
        who sends it with the same ids. Raises nothing for what a provider does.
        """
        ...


# Requests over HTTP/2, many at once on few connections: what every sender of alerts is made from.


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    origin: str
    """`https://api.push.apple.com:443`; each has connections of its own."""
    path: str
    headers: Sequence[tuple[str, str]]
    """Names in small letters, without those that begin with a colon."""
    body: bytes
    suspect: bool = False
    """Travels on a connection apart: a provider that refuses it may narrow the one that it came on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in small letters."""
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """No answer."""

    reason: str
    left: bool
    """Whether the request may have reached somebody who acts on it. False: it is safe to say that nobody did."""


class Transport(Protocol):
    """Blocking, for one thread at a time; never sleeps for longer than an answer may take, and sends nothing twice that
    may have arrived."""

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply | Silence]]:
        """Each post with its answer, in the order in which answers come. Takes posts as there is room for them on their
        way, so that memory doesn't grow with how many there are. Raises nothing for what the other side does."""
        ...


# Which devices people have: the rows that alerts are sent by, and from which the bitmap of who has one is made.


class Devices(Protocol):
    """Durable. Everything raises StoreUnavailable, and Full where it writes; whoever writes again writes the same.

    A device has one holder: the member whose registration ranks highest of all that was said of it, or nobody, where
    what ranks highest is that it is gone. A registration ends by itself KEPT after its moment.
    """

    def write(self, words: Collection[DeviceWord]) -> None:
        """In any order, any number of times, beside others who write of the same devices.

        When it returns, whoever held one of these devices by a word that ranks lower holds it no more, in whatever is
        read from then on. Cut off on the way, it is so of some; nobody has got a device before all who held it by what
        was known have lost it.
        """
        ...

    def standing(self, ids: Collection[DeviceId]) -> Mapping[DeviceId, Holding]:
        """What ranks highest of each; without those of which nothing is known."""
        ...

    def of(self, members: Collection[Member]) -> Mapping[Member, Sequence[Device]]:
        """All that each of them holds, by platform and id; without those who hold none."""
        ...

    def reached(self, platform: Platform, shard: int, people: Bits) -> Iterator[Device]:
        """Those of the shard's members named by the bitmap, in the members' order: read by ranges of their blocks, and
        never person by person. A few blocks at a time are in memory."""
        ...

    def people(self, shard: int) -> Bits:
        """Everybody of the shard who holds a device, by the same rows."""
        ...

"""The calls: which devices of a shard are to be sent to now, in parts that are noted before any of it is sent."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from operator import attrgetter

from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, from_offsets, holds, nobody
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import stale
from notifier.domain.ids import Member
from notifier.domain.push.device import Device
from notifier.domain.push.frequency_cap import Ruling
from notifier.domain.push.send_log import Missed, Olders, Progress, Sending, Try, Why, Window, in_doubt, is_over
from notifier.flow.push.catch_up import IN_TIME, Summed
from notifier.flow.push.frequency_caps import Capping
from notifier.ports.devices import Devices
from notifier.ports.push import Spare

AT_ONCE = 2_000
"""Devices of a part: what a crash may tell twice, a third of a second of a provider's fastest."""

_WHY: Mapping[Ruling, Why] = {
    Ruling.HOURLY: Why.HOURLY,
    Ruling.DAILY: Why.DAILY,
    Ruling.SAME_TWEET: Why.SAME_TWEET,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    device: Device
    tried: Try


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    sending: Sending
    window: Window
    calls: Sequence[Call]
    written: bool = False
    """By whoever died over it; what was missed of it stands in the window, and nothing of it is sent."""

    def cut(self, most: int) -> "Part":
        """No more than so many calls, or one person's. What was written stays as it is."""
        if self.written or len(self.calls) <= most:
            return self
        end = self.calls[max(0, most - 1)].tried.member
        calls = [call for call in self.calls if call.tried.member <= end]
        kept = {call.device.id for call in calls}
        again = tuple(tried for tried in self.window.again if tried.device in kept)
        mask = from_offsets(range(end % SHARD_MEMBERS + 1))
        return replace(self, window=replace(_masked(self.window, mask), again=again), calls=calls)

    def without(self, people: Collection[Member]) -> "Part":
        """With none of their calls; they are in its window no more, and so are still to be told."""
        if not people:
            return self
        calls = [call for call in self.calls if call.tried.member not in people]
        out = {call.device.id for call in self.calls if call.tried.member in people}
        again = tuple(tried for tried in self.window.again if tried.device not in out)
        return replace(self, window=replace(_masked(self.window, ~_bits(people)), again=again), calls=calls)

    @property
    def empty(self) -> bool:
        """Nothing is to be noted of it."""
        return not (self.written or self.calls or self.window.again or self.window.people.any())


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    sending: Sending
    progress: Progress
    alerted: Bits
    """Whom it is for, by its seal."""
    spare: Spare
    summed: Summed = IN_TIME

    @property
    def pending(self) -> Bits:
        """To be told for the first time, now or when they wake."""
        found: Bits = self.alerted & ~self.progress.intended
        return found & ~self.spare.never

    @property
    def fresh(self) -> Bits:
        found: Bits = self.pending & ~self.spare.asleep & ~self.summed.held
        return found

    def later(self, now: datetime) -> Iterator[datetime]:
        """When there is more to do for it than now."""
        waiting = self.progress.waiting.values()
        yield from (one.at for one in waiting if one.at is not None and one.at > now)
        asleep = (self.pending & self.spare.asleep).any() or any(self._sleeps(one) for one in waiting)
        if asleep and self.spare.until is not None:
            yield self.spare.until

    def _sleeps(self, missed: Missed) -> bool:
        return holds(self.spare.asleep, missed.tried.member)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    devices: Devices
    capping: Capping
    at_once: int = AT_ONCE

    def __call__(self, burst: Burst, shard: Shard, now: datetime) -> Iterator[Part]:
        """What was on its way at a crash first, then what is to be tried again, then whoever wasn't told yet."""
        numbers = iter(range(shard.progress.windows, 1 << 31))
        yield from (self._broken(burst, shard, window, now) for window in shard.progress.broken)
        yield from self._due(shard, now, lambda: next(numbers))
        yield from self._fresh(burst, shard, now, lambda: next(numbers))

    def _broken(self, burst: Burst, shard: Shard, window: Window, now: datetime) -> Part:
        """All of it may have arrived, and any of it may not: to each of its devices it is a try without an answer. Sent
        again right here it would wake whoever sleeps by now, and ring for ever where each worker dies over it."""
        tries, people = [*window.again], window.told & ~shard.spare.never
        if people.any():
            reached = self.devices.reached(shard.sending.platform, shard.sending.shard, people)
            tries += [_first(burst, device, window) for device in reached]
        missed = tuple(in_doubt(tried, now) for tried in tries)
        return Part(sending=shard.sending, window=replace(window, missed=missed), calls=(), written=True)

    def _due(self, shard: Shard, now: datetime, number: Callable[[], int]) -> Iterator[Part]:
        """Those whose moment has come. Of a device that is another's by now, or whose person is spared, or has slept
        through its half hour, it is noted that nothing more is sent."""
        due = [one.tried for one in shard.progress.waiting.values() if one.at is not None and one.at <= now]
        awake = [one for one in due if is_over(one, now) or not holds(shard.spare.asleep, one.member)]
        awake.sort(key=attrgetter("member"))
        for start in range(0, len(awake), self.at_once):
            again = tuple(awake[start : start + self.at_once])
            window = Window(n=number(), at=now, again=again)
            yield Part(sending=shard.sending, window=window, calls=[*self._again(shard, again, now)])

    def _again(self, shard: Shard, tries: Iterable[Try], now: datetime) -> Iterator[Call]:
        told = [one for one in tries if not holds(shard.spare.never, one.member) and not is_over(one, now)]
        wanted = {one.device: one for one in told}
        held = self.devices.of({one.member for one in wanted.values()}) if wanted else {}
        for member in sorted(held):
            own = (one for one in held[member] if one.id in wanted and wanted[one.id].member == member)
            yield from (Call(device=one, tried=wanted[one.id]) for one in own)

    def _fresh(self, burst: Burst, shard: Shard, now: datetime, number: Callable[[], int]) -> Iterator[Part]:
        people, at = shard.fresh, shard.sending
        if not people.any():
            return
        for devices in _by_person(self.devices.reached(at.platform, at.shard, people), self.at_once):
            members = {device.member for device in devices}
            window = self._window(burst, shard.summed, members, number(), now)
            told = window.told
            calls = [
                Call(device=device, tried=_first(burst, device, window))
                for device in devices
                if holds(told, device.member)
            ]
            yield Part(sending=at, window=window, calls=calls)

    def _window(self, burst: Burst, summed: Summed, members: set[Member], n: int, now: datetime) -> Window:
        people, silent = _bits(members), dict[Why, Bits]()
        if (collapsed := people & summed.collapsed).any():
            silent[Why.COLLAPSED] = collapsed
            members = {member for member in members if not holds(collapsed, member)}
        rulings = self.capping(burst, sorted(members), now)
        for ruling, why in _WHY.items():
            if capped := {member for member in members if rulings.get(member) is ruling}:
                silent[why] = _bits(capped)
        window = Window(n=n, at=now, people=people, silent=silent)
        return replace(window, away=_within(summed.tells, window.told))


def _by_person(devices: Iterable[Device], most: int) -> Iterator[Sequence[Device]]:
    """Nobody's devices are parted."""
    part: list[Device] = []
    for _, own in groupby(devices, key=attrgetter("member")):
        part.extend(own)
        if len(part) >= most:
            yield part
            part = []
    if part:
        yield part


def _first(burst: Burst, device: Device, window: Window) -> Try:
    away = 1 + len(window.tells(device.member)) if stale(burst, window.at) else 0
    return Try(device=device.id, member=device.member, first=window.at, away=away)


def _within(tells: Mapping[Olders, Bits], people: Bits) -> Mapping[Olders, Bits]:
    found = {olders: bits & people for olders, bits in tells.items()}
    return {olders: bits for olders, bits in found.items() if bits.any()}


def _bits(members: Iterable[Member]) -> Bits:
    places = [member % SHARD_MEMBERS for member in members]
    return from_offsets(places) if places else nobody()


def _masked(window: Window, mask: Bits) -> Window:
    return replace(
        window,
        people=window.people & mask,
        away=_within(window.away, mask),
        silent={why: bits & mask for why, bits in window.silent.items()},
    )

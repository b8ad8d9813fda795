"""Away: alerts of one subject that came too late become one, "while you were away", of the newest that is told.

An alert names the older bursts of which it tells, person by person, in the window that stands before it is sent. An
older one is collapsed once such a window names it, and never for what is still to come: the newer one may find that its
person has seen it, or is told no more, or has no phone here. While that isn't known the older one waits.

A wait ends. Nobody waits for an older one, so the newest of all that are late waits for none, and each that is waited
for has a turn soon, by which it has told its people, or left them alone, or waits for a newer one itself; then the next
older one is the newest. And no slice outlives its day.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from notifier.domain.audience.bitmap import Bits, nobody
from notifier.domain.audience.snapshot import Seal
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import Account, stale
from notifier.domain.delivery.slice import Slice
from notifier.domain.errors import Poison
from notifier.domain.ids import BurstKey, Platform, Subject
from notifier.domain.push.catch_up import SOON, Lot, Shards, coming, covered, owing, pause, rings
from notifier.domain.push.send_log import Olders, Window, progress
from notifier.domain.timing import REACH
from notifier.ports.bursts import Bursts
from notifier.ports.inbox import Seals
from notifier.ports.ledger import Ledger
from notifier.ports.push import Sent, Spared

# The neighbours of a burst: those of its subject that were to ring, behind it and before it.

AT_FIRST = 16
"""Numbers that are looked at together, and then twice as many each time: a subject's budget has thirty fan-outs in a
day, and its purse as many. Those who are never to ring use up any number of numbers between them."""
SILENT = 65_536
"""Of these that are remembered; 20 MB."""
EVER = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True, kw_only=True)
class Neighbours:
    """For one thread, which asks for each of them anew, since they may be taken back, unless they never ring."""

    bursts: Bursts
    most: int = SILENT
    silent: dict[BurstKey, datetime] = field(default_factory=dict, init=False)
    """Those that never do, by their opening."""

    def newer(self, burst: Burst) -> Sequence[Burst]:
        """The newest first."""
        return list(self._along(burst.key.subject, _upwards(burst.key.seq + 1), EVER))[::-1]

    def older(self, burst: Burst, since: datetime) -> Sequence[Burst]:
        """Those that opened at `since` or later, and the newest of them first."""
        found = self._along(burst.key.subject, _downwards(burst.key.seq - 1), since)
        return [other for other in found if other.opened_at >= since]

    def _along(self, subject: Subject, runs: Iterator[range], since: datetime) -> Iterator[Burst]:
        """Up to the last one, or to one that opened before that: numbers are given in the order of openings."""
        for run in runs:
            keys = [BurstKey(subject, seq) for seq in run]
            found = self.bursts.read([key for key in keys if key not in self.silent])
            opened = found[keys[-1]].opened_at if keys[-1] in found else self.silent.get(keys[-1])
            self._remember(found.values())
            yield from (found[key] for key in keys if key in found and rings(found[key]))
            if opened is None or opened < since:
                return

    def _remember(self, bursts: Iterable[Burst]) -> None:
        if len(self.silent) > self.most:
            self.silent.clear()
        self.silent |= {burst.key: burst.opened_at for burst in bursts if not rings(burst)}


def _upwards(seq: int) -> Iterator[range]:
    size = AT_FIRST
    while True:
        yield range(seq, seq + size)
        seq, size = seq + size, size * 2


def _downwards(seq: int) -> Iterator[range]:
    size = AT_FIRST
    while seq > 0:
        yield range(seq, max(0, seq - size), -1)
        seq, size = seq - size, size * 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Summed:
    """Of a shard's people to whom a burst would be told."""

    collapsed: Bits = field(default_factory=nobody)
    """A newer one told of it."""
    held: Bits = field(default_factory=nobody)
    """Not in this turn: a newer one may be about to."""
    tells: Mapping[Olders, Bits] = field(default_factory=dict)
    """Of the others those whose alert tells of older ones, too."""


IN_TIME = Summed()

Lots = Mapping[int, Lot]
"""By shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    neighbours: Neighbours
    ledger: Ledger
    seals: Seals
    sent: Sent
    spared: Spared

    def __call__(
        self, burst: Burst, platform: Platform, people: Mapping[int, Bits], now: datetime, going: Callable[[], None]
    ) -> Mapping[int, Summed]:
        """Of shards; those that it leaves out have nothing that is late. Calls `going` from burst to burst."""
        lots = {shard: Lot(left=bits) for shard, bits in people.items() if bits.any()}
        if not lots or not stale(burst, now):
            return {}
        for other in self.neighbours.newer(burst):
            going()
            self._heed(burst, other, platform, _left(lots), now)
        for other in self.neighbours.older(burst, now - REACH) if _left(lots) else ():
            going()
            self._tell(other, platform, _left(lots), now)
        return {shard: _summed(lot) for shard, lot in lots.items()}

    def again_at(self, piece: Slice, now: datetime) -> datetime:
        """When a slice that waits for newer ones asks again; the later, the more often it has waited."""
        return now + pause(self.ledger.read([piece.burst])[piece.burst].standings[piece].waited)

    def _heed(self, burst: Burst, other: Burst, platform: Platform, lots: Lots, now: datetime) -> None:
        """A newer one."""
        seals = self._seals(other, lots)
        # The ledger before the windows: of a slice that has ended by then they say all. Read the other way round, one
        # that tells of this burst between the two reads would be found over, and in no window.
        # One that is still in time, but not for long, may be late by the moment in which it tells.
        late = stale(other, now + SOON)
        soon = self._open(other, seals, lambda account: coming(account, platform, now)) if late else {}
        windows = self._windows(other.key, platform, seals)
        to_come = dict[int, Bits]()
        for shard, seal in seals.items():
            lot, found = lots[shard], windows.get(shard, ())
            lot.hear(found)
            lot.collapse(lot.told_of(burst.key.seq))
            to_come[shard] = covered(seal, soon) & lot.left & ~progress(found).intended
        for shard, bits in self._unspared(other, to_come, now).items():
            lots[shard].hold(bits)

    def _tell(self, other: Burst, platform: Platform, lots: Lots, now: datetime) -> None:
        """An older one: of which this alert tells whoever was still to be told of it, by itself."""
        seals = self._seals(other, lots)
        windows, untold = self._windows(other.key, platform, seals), dict[int, Bits]()
        for shard, seal in seals.items():
            lot, found = lots[shard], windows.get(shard, ())
            lot.hear(found)
            bits = seal.push & lot.left & ~progress(found).intended & ~lot.told_of(other.key.seq)
            if bits.any():
                untold[shard] = bits
        owed = self._open(other, untold, lambda account: owing(account, platform))
        untold = {shard: bits & covered(seals[shard], owed) for shard, bits in untold.items()}
        for shard, bits in self._unspared(other, untold, now).items():
            lots[shard].tell(other.key.seq, bits)

    def _seals(self, other: Burst, lots: Lots) -> Mapping[int, Seal]:
        """Of the shards in which it was for any of these; where it isn't sealed yet nobody was told of it."""
        found = self.seals.read(other.key, lots) if lots else {}
        return {shard: seal for shard, seal in found.items() if (seal.push & lots[shard].left).any()}

    def _open(self, other: Burst, shards: Collection[int], which: Callable[[Account], Shards]) -> Shards:
        """Of one that was taken back nothing more is told, and nothing of one whose account can't be read: it is never
        dispatched, and nobody waits for it."""
        if not shards or other.silent:
            return {}
        try:
            account = self.ledger.read([other.key]).get(other.key)
        except Poison:
            return {}
        return which(account) if account else {}

    def _windows(self, key: BurstKey, platform: Platform, shards: Collection[int]) -> Mapping[int, Sequence[Window]]:
        """Of all tiers: people may have been in another one then."""
        found = dict[int, list[Window]]()
        for sending, windows in self.sent.read(key, platform, shards).items() if shards else ():
            found.setdefault(sending.shard, []).extend(windows)
        return found

    def _unspared(self, other: Burst, people: Mapping[int, Bits], now: datetime) -> Mapping[int, Bits]:
        some = {shard: bits for shard, bits in people.items() if bits.any()}
        spare = self.spared.read(other, some, now) if some else {}
        return {shard: bits & ~spare[shard].never for shard, bits in some.items()}


def _left(lots: Lots) -> Lots:
    return {shard: lot for shard, lot in lots.items() if lot.left.any()}


def _summed(lot: Lot) -> Summed:
    tells = {olders: bits for olders, bits in lot.tells.items() if olders}
    return Summed(collapsed=lot.collapsed, held=lot.held, tells=tells)

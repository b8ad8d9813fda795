"""The attendant: who was seen elsewhere counts as who opened the tab here, from the next roll-up on."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from notifier.codec import unpack
from notifier.domain.audience.activity import OF_THE_ACTIVE, Sighting, asked_hour, grown, hour_of, stays_until, turned
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, joined, nobody, same
from notifier.domain.audience.tiers import SetKind
from notifier.domain.errors import Poison
from notifier.domain.fencing import Stamp, stamp
from notifier.flow.leadership import Leadership
from notifier.metrics import Metrics
from notifier.ports.audience import KEPT, ActiveHours, MemberSets, ShardBlob, Stay, Stays
from notifier.ports.coordination import Clock, Epochs
from notifier.ports.directory import Directory
from notifier.ports.event_log import Logged


@dataclass(frozen=True, slots=True, kw_only=True)
class Attendant:
    directory: Directory
    hours: ActiveHours
    clock: Clock

    def __call__(self, records: Sequence[Logged]) -> None:
        """Everybody's bit is set when it returns; setting it again, after a crash or by another reader, is setting it.

        Raises CacheUnavailable, and then the log keeps what was said until the hours can be noted.
        """
        now = self.clock.now()
        told = [unpack(Sighting, logged.record.value) for logged in records]
        # A stranger is given a number: whom a platform sees before anybody follows is around when somebody does.
        numbers = self.directory.number({one.user for one in told if one.counts(now)})
        if numbers:
            self.hours.touch(set(numbers.values()), hour_of(now))


# The roll-up: what was told of who is around becomes stays in the store, and these the sets that tiers are made of.
#
# One leader a minute. It reads back what it writes, so it carries a stamp, by which one who was replaced loses.

LOGGER = logging.getLogger("notifier.rollup")

AT_ONCE = 32
"""Shards: the longest set of each is joined from 31 bitmaps, 16 MB in all, however many members there are."""
FORGOTTEN_AFTER = 48
"""Hours after its end: a clock that was set back finds what was still true then."""
SAID_FOR = timedelta(days=1)
"""That something was published: whoever doesn't find this knows that the cache was emptied."""

Around = Mapping[tuple[int, int], Bits]
"""By hour and shard."""


@dataclass(slots=True, kw_only=True)
class RollUp:
    directory: Directory
    hours: ActiveHours
    stays: Stays
    sets: MemberSets
    epochs: Epochs
    leadership: Leadership
    clock: Clock
    metrics: Metrics
    reach: int
    """P2's, in days."""
    last: int | None = None
    """The hour of the last round that came to its end, since this process has the job."""
    taken: dict[tuple[int, int], int] = field(default_factory=dict)
    """What was read of an hour and shard, as a hash: it is taken again when it differs."""

    def run(self) -> None:
        """One round. Raises CacheUnavailable, and then nothing is changed: what was published last stands until the
        hours can be read, and nobody grows idle because nobody can be noted.

        The first round of a leader reads all hours that are kept, and makes all sets anew from the stays. So whatever
        a leader left half done, its heir does; and what both did is the same, because bits are only ever joined.
        """
        now = self.clock.now()
        if not self.leadership.held(now):
            self.last, self.taken = None, {}  # whoever leads meanwhile may have written what this one wrote
            return
        # Begun before anything is read that is written back: whoever led before has a lower one, and what he still
        # writes over ours is lost. Where we left a bitmap as it was his write stands: it has the same bits, for he read
        # what we did, or some who have left since he fell asleep. The next turn makes it anew.
        at = stamp(self.epochs.begin("rollup"))
        hour, hours = hour_of(now), grown(now, self.last, KEPT)
        self._note_emptied()
        anew = [kind for kind in OF_THE_ACTIVE if turned(kind, self.last, hour)]
        for some in self._shards():
            try:
                self._take(some, hours, at, {kind: asked_hour(kind, hour, self.reach) for kind in anew})
            except Poison:  # alone: these shards stay as they are, and the others don't wait for them
                LOGGER.exception("the shards %d to %d were not rolled up", some[0], some[-1])
                self.metrics.unrolled.inc()
        if anew:
            self.stays.forget(hour - FORGOTTEN_AFTER)
        self.last, self.taken = hour, {name: said for name, said in self.taken.items() if name[0] in hours}
        self.hours.rolled_up(now, SAID_FOR)

    def _note_emptied(self) -> None:
        if self.last is not None and self.hours.last_rolled_up() is None:
            LOGGER.warning("the cache was emptied: who looked since the last round may count an hour later")
            self.metrics.emptied.inc()

    def _shards(self) -> Iterator[Sequence[int]]:
        end = -(-self.directory.end() // SHARD_MEMBERS)
        return (range(first, min(first + AT_ONCE, end)) for first in range(0, end, AT_ONCE))

    def _take(self, some: Sequence[int], hours: Collection[int], at: Stamp, anew: Mapping[SetKind, int]) -> None:
        read = {(hour, shard): bits for hour in hours for shard, bits in self.hours.read(hour, some).items()}
        said = {name: hash(bits.tobytes()) for name, bits in read.items()}
        around = {name: bits for name, bits in read.items() if self.taken.get(name) != said[name]}
        # The stays first: who dies behind them leaves sets without the newest, and his heir makes them anew. The other
        # way round the next hour would take away whom only the sets know.
        self._keep(around, at)
        for kind in OF_THE_ACTIVE:
            if kind in anew:
                self._publish(kind, some, self.stays.standing(kind, anew[kind], some), at)
            elif around:
                self._add(kind, joined((shard, bits) for (_, shard), bits in around.items()), at)
        # Only now: what failed before this line is taken again.
        self.taken |= said

    def _keep(self, around: Around, at: Stamp) -> None:
        """Each row once, though several hours be in it: of two with one stamp a store keeps whichever it likes."""
        for kind in OF_THE_ACTIVE:
            for until in sorted({stays_until(kind, hour) for hour, _ in around}):
                told = joined((s, bits) for (hour, s), bits in around.items() if stays_until(kind, hour) == until)
                before = self.stays.until(kind, until, list(told))
                after = {shard: before.get(shard, nobody()) | bits for shard, bits in told.items()}
                changed = {s: bits for s, bits in after.items() if s not in before or not same(before[s], bits)}
                self.stays.put([Stay(kind=kind, until=until, shard=s, bits=bits) for s, bits in changed.items()], at)

    def _add(self, kind: SetKind, more: Mapping[int, Bits], at: Stamp) -> None:
        before = self.sets.read(kind, None, list(more))
        self._put(kind, before, {shard: before.get(shard, nobody()) | bits for shard, bits in more.items()}, at)

    def _publish(self, kind: SetKind, some: Sequence[int], standing: Mapping[int, Bits], at: Stamp) -> None:
        before = self.sets.read(kind, None, some)
        self._put(kind, before, {shard: standing.get(shard, nobody()) for shard in some}, at)

    def _put(self, kind: SetKind, before: Mapping[int, Bits], after: Mapping[int, Bits], at: Stamp) -> None:
        """Only what changed: at rest a round writes nothing but its epoch."""
        changed = {s: bits for s, bits in after.items() if not same(before.get(s, nobody()), bits)}
        self.sets.put([ShardBlob(kind=kind, owner=None, shard=s, bits=bits) for s, bits in changed.items()], at)

"""Activity indexing: records users seen elsewhere, and rolls activity up into sets."""

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
        """Mark the users of all sightings as active. Idempotent, after a crash or with concurrent readers.

        Raises CacheUnavailable; then the log keeps the sightings until the activity can be recorded.
        """
        now = self.clock.now()
        sightings = [unpack(Sighting, logged.record.value) for logged in records]
        # Unknown users get a member number: a user seen before following anything counts as active afterwards.
        numbers = self.directory.number({sighting.user for sighting in sightings if sighting.counts(now)})
        if numbers:
            self.hours.touch(set(numbers.values()), hour_of(now))


# Roll-up: turns recorded activity into active-set entries in the store, and these into the sets that define tiers.
#
# One leader runs it every minute. It reads back what it writes, so it uses a fencing token.

LOGGER = logging.getLogger("notifier.rollup")

AT_ONCE = 32
"""Shards per step: the longest-lived set of each shard is joined from 31 bitmaps, 16 MB in total at any user count."""
FORGOTTEN_AFTER = 48
"""Hours that expired entries are kept: if the clock is set back, the entries valid at that time still exist."""
SAID_FOR = timedelta(days=1)
"""Lifetime of the roll-up marker in the cache. If it is missing, the cache was emptied."""

Around = Mapping[tuple[int, int], Bits]
"""Active members by hour and shard."""


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
    """Days for which activity keeps a member in P2."""
    last: int | None = None
    """Hour of the last completed round since this process became the leader."""
    taken: dict[tuple[int, int], int] = field(default_factory=dict)
    """Hash of the activity read last, by hour and shard; it is processed again if it differs."""

    def run(self) -> None:
        """Run one round. Raises CacheUnavailable and then changes nothing.

        The last published sets stay until the activity can be read again, so a cache outage makes no user inactive.

        The first round of a leader reads all hours that are kept, and rebuilds all sets from the active-set entries. So
        it completes what a former leader left unfinished. Repeating a step is harmless, because bits are only added.
        """
        now = self.clock.now()
        if not self.leadership.held(now):
            self.last, self.taken = None, {}  # another leader may overwrite what this process wrote
            return
        # Begin the epoch before the read-modify-write: a deposed leader has a lower fencing token, so its late writes
        # lose. A bitmap that this round leaves unchanged can still get such a write. It has the same bits, or also
        # members that have left since the deposed leader stalled; the next rebuild corrects that.
        token = stamp(self.epochs.begin("rollup"))
        hour, hours = hour_of(now), grown(now, self.last, KEPT)
        self._note_emptied()
        anew = [kind for kind in OF_THE_ACTIVE if turned(kind, self.last, hour)]
        for shards in self._shards():
            try:
                self._take(shards, hours, token, {kind: asked_hour(kind, hour, self.reach) for kind in anew})
            except Poison:  # these shards stay unchanged; the other shards do not wait for them
                LOGGER.exception("the shards %d to %d were not rolled up", shards[0], shards[-1])
                self.metrics.unrolled.inc()
        if anew:
            self.stays.forget(hour - FORGOTTEN_AFTER)
        self.last, self.taken = hour, {name: digest for name, digest in self.taken.items() if name[0] in hours}
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
        hashes = {name: hash(bits.tobytes()) for name, bits in read.items()}
        around = {name: bits for name, bits in read.items() if self.taken.get(name) != hashes[name]}
        # Write the entries first: after a crash the sets lack the newest members, and the next leader rebuilds them. In
        # the opposite order, the next hour would remove members that only the sets contain.
        self._keep(around, at)
        for kind in OF_THE_ACTIVE:
            if kind in anew:
                self._publish(kind, some, self.stays.standing(kind, anew[kind], some), at)
            elif around:
                self._add(kind, joined((shard, bits) for (_, shard), bits in around.items()), at)
        # Only now, so that everything that failed before this line is processed again.
        self.taken |= hashes

    def _keep(self, around: Around, at: Stamp) -> None:
        """Write each entry once, even if it covers several hours: with equal tokens a store keeps either write."""
        for kind in OF_THE_ACTIVE:
            for until in sorted({stays_until(kind, hour) for hour, _ in around}):
                active = joined((s, bits) for (hour, s), bits in around.items() if stays_until(kind, hour) == until)
                before = self.stays.until(kind, until, list(active))
                after = {shard: before.get(shard, nobody()) | bits for shard, bits in active.items()}
                changed = {s: bits for s, bits in after.items() if s not in before or not same(before[s], bits)}
                self.stays.put([Stay(kind=kind, until=until, shard=s, bits=bits) for s, bits in changed.items()], at)

    def _add(self, kind: SetKind, more: Mapping[int, Bits], at: Stamp) -> None:
        before = self.sets.read(kind, None, list(more))
        self._put(kind, before, {shard: before.get(shard, nobody()) | bits for shard, bits in more.items()}, at)

    def _publish(self, kind: SetKind, some: Sequence[int], standing: Mapping[int, Bits], at: Stamp) -> None:
        before = self.sets.read(kind, None, some)
        self._put(kind, before, {shard: standing.get(shard, nobody()) for shard in some}, at)

    def _put(self, kind: SetKind, before: Mapping[int, Bits], after: Mapping[int, Bits], at: Stamp) -> None:
        """Write only changed bitmaps: a round without activity writes nothing but its epoch."""
        changed = {s: bits for s, bits in after.items() if not same(before.get(s, nobody()), bits)}
        self.sets.put([ShardBlob(kind=kind, owner=None, shard=s, bits=bits) for s, bits in changed.items()], at)

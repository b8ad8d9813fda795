"""Records users seen outside the inbox, and rolls activity up into active sets."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from notifier.codec import unpack
from notifier.domain.audience.activity import (
    ACTIVE_SET_KINDS,
    Sighting,
    earliest_expiry_hour,
    expiry_hour,
    hour_of,
    hours_to_read,
    may_have_expired,
)
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, is_equal, no_members, union_by_shard
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.errors import Poison
from notifier.domain.fencing import FencingToken, fencing_token
from notifier.flow.leadership import Leadership
from notifier.metrics import Metrics
from notifier.ports.audience import ACTIVITY_KEPT_FOR, ActiveHours, ActiveSetEntry, ActiveSets, MemberSets, ShardBitmap
from notifier.ports.event_log_and_dead_letters import Logged
from notifier.ports.leases_queues_throttles_clock import Clock, Epochs
from notifier.ports.user_directory_and_account_flags import Directory


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityIndexer:
    directory: Directory
    hours: ActiveHours
    clock: Clock

    def __call__(self, records: Sequence[Logged]) -> None:
        """Record the users of recent sightings as active now. Idempotent: several readers may handle the same records.

        During an outage the records stay in the log.
        """
        now = self.clock.now()
        sightings = [unpack(Sighting, logged.record.value) for logged in records]
        # Number unknown users, too. They follow no account yet, but are active as soon as they follow one.
        members = self.directory.assign_numbers({sighting.user for sighting in sightings if sighting.is_recent(now)})
        if members:
            self.hours.touch(set(members.values()), hour_of(now))


# Roll-up: turns recorded activity into active-set entries in the store, and these into the bitmaps that define tiers.
#
# One leader runs the roll-up, every minute by default.

LOGGER = logging.getLogger("notifier.rollup")

SHARDS_PER_BATCH = 32
"""Shards processed at a time. The 30-day set of a shard is the union of 31 bitmaps of 16 KB, so a batch reads 16 MB."""
EXPIRED_KEPT_HOURS = 48
"""Hours for which expired entries are kept, because a clock that is set back makes some of them valid again."""
ROLL_UP_MARKER_TTL = timedelta(days=1)
"""Lifetime of the marker that each round writes to the cache. If the next round does not find it, the cache was
emptied."""

ActiveByHourAndShard = Mapping[tuple[int, int], Bits]


@dataclass(slots=True, kw_only=True)
class RollUp:
    directory: Directory
    hours: ActiveHours
    active_sets: ActiveSets
    sets: MemberSets
    epochs: Epochs
    leadership: Leadership
    clock: Clock
    metrics: Metrics
    p2_days: int
    """Days for which activity keeps a member in the tier P2."""
    last_round_hour: int | None = None
    """Hour of the last completed round; None before the first round since this process became the leader."""
    hash_by_hour_and_shard: dict[tuple[int, int], int] = field(default_factory=dict)
    """Hash of the activity that was processed, by hour and shard. Activity with an unchanged hash is skipped."""

    def run(self) -> None:
        """Run one round. If an outage ends it, the remaining bitmaps stay unchanged until the next round.

        The first round of a leader reads all hours that are kept, and rebuilds all activity bitmaps from the entries.
        So it completes a round that a former leader left unfinished. Repeated steps are harmless, because entries only
        gain bits.
        """
        now = self.clock.now()
        if not self.leadership.is_leader(now):
            # Forget the last round: another leader may overwrite what this process wrote.
            self.last_round_hour, self.hash_by_hour_and_shard = None, {}
            return
        # Begin the epoch before the read-modify-write. A deposed leader has a lower fencing token, so its late writes
        # lose to the bitmaps that this round writes. A bitmap that this round leaves unchanged is not written, so there
        # a late write succeeds. It can only add members that became inactive meanwhile, and the next rebuild removes
        # them.
        token = fencing_token(self.epochs.begin("rollup"))
        hour, recent_hours = hour_of(now), hours_to_read(now, self.last_round_hour, ACTIVITY_KEPT_FOR)
        self._report_lost_activity()
        kinds_to_rebuild = [kind for kind in ACTIVE_SET_KINDS if may_have_expired(kind, self.last_round_hour, hour)]
        earliest_expiry = {kind: earliest_expiry_hour(kind, hour, self.p2_days) for kind in kinds_to_rebuild}
        for shards in self._shard_batches():
            try:
                self._process_shards(shards, recent_hours, token, earliest_expiry)
            except Poison:  # skip these shards, and go on with other shards
                LOGGER.exception("shards %d to %d were not rolled up", shards[0], shards[-1])
                self.metrics.activity_unreadable.inc()
        if kinds_to_rebuild:
            self.active_sets.delete_expired(hour - EXPIRED_KEPT_HOURS)
        self.last_round_hour = hour
        self.hash_by_hour_and_shard = {
            key: activity_hash for key, activity_hash in self.hash_by_hour_and_shard.items() if key[0] in recent_hours
        }
        self.hours.record_roll_up(now, ROLL_UP_MARKER_TTL)

    def _report_lost_activity(self) -> None:
        if self.last_round_hour is not None and self.hours.last_roll_up() is None:
            LOGGER.warning("Redis lost activity data; recent visitors may become active up to an hour late")
            self.metrics.activity_emptied.inc()

    def _shard_batches(self) -> Iterator[Sequence[int]]:
        end = -(-self.directory.next_number() // SHARD_MEMBERS)
        return (range(first, min(first + SHARDS_PER_BATCH, end)) for first in range(0, end, SHARDS_PER_BATCH))

    def _process_shards(
        self,
        shards: Sequence[int],
        recent_hours: Collection[int],
        token: FencingToken,
        earliest_expiry: Mapping[SetKind, int],
    ) -> None:
        """Write the new activity of the shards to the entries and the bitmaps.

        `earliest_expiry` has the kinds of sets to rebuild, each with the earliest expiry hour of valid entries.
        """
        active = {(hour, shard): bits for hour in recent_hours for shard, bits in self.hours.read(hour, shards).items()}
        hashes = {key: hash(bits.tobytes()) for key, bits in active.items()}
        unprocessed = {key: bits for key, bits in active.items() if self.hash_by_hour_and_shard.get(key) != hashes[key]}
        # Write the entries first: after a crash the bitmaps lack the newest members, and the next leader rebuilds them.
        # In the opposite order, the next rebuild would remove members that only the bitmaps contain.
        self._write_entries(unprocessed, token)
        for kind in ACTIVE_SET_KINDS:
            if kind in earliest_expiry:
                active_by_shard = self.active_sets.read_active(kind, earliest_expiry[kind], shards)
                self._replace_members(kind, shards, active_by_shard, token)
            elif unprocessed:
                new_by_shard = union_by_shard((shard, bits) for (_, shard), bits in unprocessed.items())
                self._add_members(kind, new_by_shard, token)
        # Remember the hashes last: if a step above fails, the next round processes the activity again.
        self.hash_by_hour_and_shard |= hashes

    def _write_entries(self, active: ActiveByHourAndShard, token: FencingToken) -> None:
        """Add the activity to the entries. All hours that share an entry are merged, and the entry is written once.

        If an entry were written twice, both writes would have the same token, and a store may keep either.
        """
        for kind in ACTIVE_SET_KINDS:
            for last_hour in sorted({expiry_hour(kind, hour) for hour, _ in active}):
                active_by_shard = union_by_shard(
                    (s, bits) for (hour, s), bits in active.items() if expiry_hour(kind, hour) == last_hour
                )
                before = self.active_sets.read_expiring(kind, last_hour, list(active_by_shard))
                after = {shard: before.get(shard, no_members()) | bits for shard, bits in active_by_shard.items()}
                changed = {s: bits for s, bits in after.items() if s not in before or not is_equal(before[s], bits)}
                self.active_sets.put(
                    [ActiveSetEntry(kind=kind, last_hour=last_hour, shard=s, bits=bits) for s, bits in changed.items()],
                    token,
                )

    def _add_members(self, kind: SetKind, active_by_shard: Mapping[int, Bits], token: FencingToken) -> None:
        before = self.sets.read(kind, None, list(active_by_shard))
        after = {shard: before.get(shard, no_members()) | bits for shard, bits in active_by_shard.items()}
        self._put_changed(kind, before, after, token)

    def _replace_members(
        self, kind: SetKind, shards: Sequence[int], active_by_shard: Mapping[int, Bits], token: FencingToken
    ) -> None:
        before = self.sets.read(kind, None, shards)
        self._put_changed(kind, before, {shard: active_by_shard.get(shard, no_members()) for shard in shards}, token)

    def _put_changed(
        self, kind: SetKind, before: Mapping[int, Bits], after: Mapping[int, Bits], token: FencingToken
    ) -> None:
        changed = {s: bits for s, bits in after.items() if not is_equal(before.get(s, no_members()), bits)}
        self.sets.put([ShardBitmap(kind=kind, owner=None, shard=s, bits=bits) for s, bits in changed.items()], token)

"""Updates bitmaps of followers and preferences, or rebuilds them from all rows."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from notifier import topics
from notifier.codec import pack
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, count, no_members, shard_of, with_members
from notifier.domain.audience.tiers_and_member_sets import SetKind, ShardSets
from notifier.domain.delivery.plan import with_shard_counts
from notifier.domain.errors import Poison, StoreUnavailable
from notifier.domain.fencing import FencingToken
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.upstream.graph_stream_records import GraphRecord, rebuild_requests, shard_key
from notifier.domain.users.account_preferences import ACCOUNT_PREFERENCE_SETS, AccountPreferences
from notifier.domain.users.subject_preferences import SUBJECT_PREFERENCE_SETS, SubjectPreference
from notifier.metrics import Metrics
from notifier.ports.audience import Follows, MemberSets, ShardBitmap
from notifier.ports.event_log_and_dead_letters import EventLog, Record
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.viewers_preferences_user_blocks import AccountPreferencesStore, SubjectPreferences

SHARDS_PER_WRITE = 64
"""Maximum number of shards per write of preference bitmaps. A shard has up to five bitmaps of 16 KB, so a write takes
5 MB of memory."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowChanges:
    """Follow changes of a subject, to be applied to its bitmaps."""

    follows_by_member: Mapping[Member, bool]
    """For each member whose follow changed, whether the member follows now."""
    shards_to_repair: Collection[int]
    """Shards to rebuild because a repair was requested. Their differences count as drift."""
    imported_shards: Collection[int]
    """Shards to rebuild because an import added rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceChanges:
    """Preference changes of a subject, to be applied to its bitmaps."""

    preference_by_member: Mapping[Member, SubjectPreference]
    shards_to_repair: Collection[int]
    """Shards to rebuild because a repair was requested. Their differences count as drift."""
    imported_shards: Collection[int]
    """Shards to rebuild because an import added rows."""

    @property
    def shards(self) -> Collection[int]:
        return {*map(shard_of, self.preference_by_member), *self.shards_to_repair, *self.imported_shards}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bitmaps:
    """Updates the bitmaps of follows and preferences after their rows were written."""

    follows: Follows
    subject_preferences: SubjectPreferences
    account_preferences: AccountPreferencesStore
    sets: MemberSets
    metrics: Metrics

    def update_follows(self, changes: Mapping[Subject, FollowChanges], token: FencingToken) -> None:
        bitmaps = {
            subject: self._follower_bitmaps(subject, subject_changes) for subject, subject_changes in changes.items()
        }
        # Write the counts first. A plan leaves out a shard without a count, so its followers would get no rows. A
        # shard with a count but no bitmap yet is harmless.
        # Write unchanged counts and bitmaps, too. The write stores our token, so late writes of a replaced reader lose.
        counts = {
            subject: {shard: count(bits) for shard, bits in by_shard.items()} for subject, by_shard in bitmaps.items()
        }
        self.sets.put_follower_counts(
            {
                subject: with_shard_counts(self.sets.follower_counts(subject), by_shard)
                for subject, by_shard in counts.items()
            },
            token,
        )
        self._put(
            (
                (subject, SetKind.FOLLOWERS, s, bits)
                for subject, by_shard in bitmaps.items()
                for s, bits in by_shard.items()
            ),
            token,
        )

    def update_preferences(self, changes: Mapping[Subject, PreferenceChanges], token: FencingToken) -> None:
        changed_shards = [
            (subject, subject_changes, shard)
            for subject, subject_changes in changes.items()
            for shard in sorted(subject_changes.shards)
        ]
        for first in range(0, len(changed_shards), SHARDS_PER_WRITE):
            bitmaps = [
                (subject, shard, self._preference_bitmaps(subject, subject_changes, shard))
                for subject, subject_changes, shard in changed_shards[first : first + SHARDS_PER_WRITE]
            ]
            self._put(
                ((subject, kind, s, bits) for subject, s, by_kind in bitmaps for kind, bits in by_kind.items()),
                token,
            )

    def update_account_preferences(
        self,
        preferences_by_member: Mapping[Member, AccountPreferences],
        shards_to_repair: Collection[int],
        imported_shards: Collection[int],
        token: FencingToken,
    ) -> None:
        preferences_by_shard = _by_shard_and_offset(preferences_by_member)
        for shard in sorted({*preferences_by_shard, *shards_to_repair, *imported_shards}):
            if shard in imported_shards and shard not in shards_to_repair:
                bitmaps = self.account_preferences.member_sets(shard)
            else:
                preferences = {} if shard in shards_to_repair else preferences_by_shard[shard]
                bitmaps = self._account_bitmaps(shard, preferences)
            self._put(((None, kind, shard, bits) for kind, bits in bitmaps.items()), token)

    def _account_bitmaps(self, shard: int, preferences: Mapping[int, AccountPreferences]) -> Mapping[SetKind, Bits]:
        """Return the shard's account-wide bitmaps after a change of preferences.

        `preferences` has the changed preferences, by offset in the shard. If it is empty, or a bitmap is unreadable,
        the bitmaps are rebuilt from the rows.
        """
        before = (
            {kind: read_bitmap(self.sets, kind, None, shard) for kind in ACCOUNT_PREFERENCE_SETS} if preferences else {}
        )
        if not before or any(bits is None for bits in before.values()):
            rows = self.account_preferences.member_sets(shard)
            return {kind: self._count_drift(kind, None, shard, bits) for kind, bits in rows.items()}
        return {
            kind: with_members(
                bits, {offset: kind in preference.member_sets for offset, preference in preferences.items()}
            )
            for kind, bits in before.items()
            if bits is not None
        }

    def _follower_bitmaps(self, subject: Subject, changes: FollowChanges) -> Mapping[int, Bits]:
        bitmaps = {
            shard: self._updated_followers(subject, shard, is_follower_by_offset)
            for shard, is_follower_by_offset in _by_shard_and_offset(changes.follows_by_member).items()
        }
        bitmaps |= {shard: self.follows.followers(subject, shard) for shard in changes.imported_shards}
        return bitmaps | {shard: self._rebuilt_followers(subject, shard) for shard in changes.shards_to_repair}

    def _updated_followers(self, subject: Subject, shard: int, is_follower_by_offset: Mapping[int, bool]) -> Bits:
        """Return the shard's bitmap after setting or clearing these bits."""
        before = read_bitmap(self.sets, SetKind.FOLLOWERS, subject, shard)
        # Rebuild an unreadable bitmap from the rows, which have the changes already. Starting from an empty bitmap
        # would lose the other followers.
        return (
            self._rebuilt_followers(subject, shard) if before is None else with_members(before, is_follower_by_offset)
        )

    def _rebuilt_followers(self, subject: Subject, shard: int) -> Bits:
        return self._count_drift(SetKind.FOLLOWERS, subject, shard, self.follows.followers(subject, shard))

    def _preference_bitmaps(self, subject: Subject, changes: PreferenceChanges, shard: int) -> Mapping[SetKind, Bits]:
        if shard in changes.imported_shards and shard not in changes.shards_to_repair:
            return self.subject_preferences.member_sets(subject, shard)
        before = (
            {}
            if shard in changes.shards_to_repair
            else {kind: read_bitmap(self.sets, kind, subject, shard) for kind in SUBJECT_PREFERENCE_SETS}
        )
        if not before or any(bits is None for bits in before.values()):
            return self._rebuilt_preferences(subject, shard)
        preferences = {
            member % SHARD_MEMBERS: preference
            for member, preference in changes.preference_by_member.items()
            if shard_of(member) == shard
        }
        return {
            kind: with_members(
                bits, {offset: kind in preference.member_sets for offset, preference in preferences.items()}
            )
            for kind, bits in before.items()
            if bits is not None
        }

    def _rebuilt_preferences(self, subject: Subject, shard: int) -> Mapping[SetKind, Bits]:
        rows = self.subject_preferences.member_sets(subject, shard)
        return {kind: self._count_drift(kind, subject, shard, bits) for kind, bits in rows.items()}

    def _count_drift(self, kind: SetKind, subject: Subject | None, shard: int, after: Bits) -> Bits:
        """Count the differences between the stored bitmap and the rebuilt one as drift; return the rebuilt one."""
        before = read_bitmap(self.sets, kind, subject, shard)
        self.metrics.bitmaps_rebuilt.inc()
        self.metrics.bitmap_drift.inc(count(after if before is None else before ^ after))
        return after

    def _put(self, bitmaps: Iterable[tuple[Subject | None, SetKind, int, Bits]], token: FencingToken) -> None:
        """Write the bitmaps. Call this once per bitmap and token: of two such writes a store may keep either."""
        self.sets.put(
            (ShardBitmap(kind=kind, owner=owner, shard=s, bits=bits) for owner, kind, s, bits in bitmaps), token
        )


def read_bitmap(sets: MemberSets, kind: SetKind, subject: Subject | None, shard: int) -> Bits | None:
    """Return the stored bitmap; None if it is unreadable."""
    with suppress(Poison):
        return sets.read(kind, subject, [shard]).get(shard, no_members())
    return None


def _by_shard_and_offset(by_member: Mapping[Member, T]) -> Mapping[int, Mapping[int, T]]:
    by_shard: defaultdict[int, dict[int, T]] = defaultdict(dict)
    for member, value in by_member.items():
        by_shard[shard_of(member)][member % SHARD_MEMBERS] = value
    return by_shard


# Repair: a process that finds an unreadable bitmap asks the graph indexer to rebuild it, and retries later.

REQUEST_INTERVAL = timedelta(seconds=10)
"""Minimum interval between a process's rebuild requests for one subject and shard. While the indexer is down, retries
of slices must not flood its stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfRepairingSets:
    """Reads live sets, and asks the graph indexer to rebuild unreadable bitmaps."""

    sets: MemberSets
    log: EventLog
    clock: Clock
    next_request_at: dict[tuple[Subject, int], datetime] = field(default_factory=dict)
    """Earliest time of the next rebuild request, by subject and shard."""

    def live(self, subject: Subject, shards: Sequence[int], restricted_to: UserId | None = None) -> Sequence[ShardSets]:
        """Return the live sets of each shard. Raises OUTAGES, such as StoreUnavailable while a bitmap is being rebuilt.

        Raises Poison for an unreadable bitmap that the graph indexer does not rebuild, for example one of activity.
        """
        try:
            return self.sets.live(subject, shards, restricted_to)
        except Poison as poison:
            damaged_shards = [self._request_rebuild(owner, shards) for owner in _owners(subject, restricted_to)]
            if not any(damaged_shards):
                raise
            # StoreUnavailable makes the caller retry. Retries repeat the request until the bitmap is rebuilt.
            raise StoreUnavailable(f"The bitmap is being rebuilt: {poison}") from poison

    def _request_rebuild(self, owner: Subject, shards: Iterable[int]) -> Collection[int]:
        """Ask the graph indexer to rebuild unreadable bitmaps, unless asked recently. Return their shards."""
        damaged_shards, now = [shard for shard in shards if count_unreadable(self.sets, owner, shard)], self.clock.now()
        if due_shards := [shard for shard in damaged_shards if self.next_request_at.get((owner, shard), now) <= now]:
            self.log.append(list(repair_records(owner.owner, due_shards)))
            self.next_request_at.update(dict.fromkeys(((owner, shard) for shard in due_shards), now + REQUEST_INTERVAL))
        return damaged_shards


def count_unreadable(sets: MemberSets, owner: Subject, shard: int) -> int:
    """Count the shard's unreadable bitmaps of the subject and of account preferences."""
    subject_bitmaps = [(kind, owner) for kind in (SetKind.FOLLOWERS, *SUBJECT_PREFERENCE_SETS)]
    all_bitmaps = [*subject_bitmaps, *((kind, None) for kind in ACCOUNT_PREFERENCE_SETS)]
    return sum(read_bitmap(sets, kind, bitmap_owner, shard) is None for kind, bitmap_owner in all_bitmaps)


def repair_records(user: UserId, shards: Sequence[int]) -> Iterator[Record]:
    """Yield requests to rebuild the bitmaps of the account and of account preferences in these shards."""
    for rebuild in rebuild_requests(user, shards):
        yield Record(stream=topics.FOLLOWS, key=user, value=pack(GraphRecord(rebuild=rebuild)))
    for shard in shards:
        yield Record(stream=topics.FOLLOWS, key=shard_key(shard), value=pack(GraphRecord(account_wide_shard=shard)))


def _owners(subject: Subject, restricted_to: UserId | None) -> Iterator[Subject]:
    yield Subject(Kind.MENTION, subject.owner)
    if restricted_to is not None:
        yield Subject(Kind.MENTION, restricted_to)

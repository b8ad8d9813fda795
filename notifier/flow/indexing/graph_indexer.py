"""Graph indexer: writes rows of follows, preferences and user blocks; updates bitmaps.

Each subject's bitmaps, and each shard's bitmaps of account preferences, have one writer: the reader of their log
partition. Rows are written idempotently and in any order. A bitmap is read, changed and written back, so it carries a
fencing token: the late writes of a replaced reader lose.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from notifier.codec import unpack
from notifier.domain.errors import LogUnavailable
from notifier.domain.fencing import FencingToken, fencing_token
from notifier.domain.ids import Member, Subject
from notifier.domain.upstream.graph_stream_records import FollowChange, GraphRecord, Rebuild
from notifier.domain.users.account_preferences import AccountPreferencesChange
from notifier.domain.users.subject_preferences import PreferenceChange
from notifier.domain.users.user_blocks import UserBlockChange
from notifier.flow.indexing.bitmap_updates_and_repair import Bitmaps, FollowChanges, PreferenceChanges
from notifier.ports.event_log_and_dead_letters import Logged
from notifier.ports.leases_queues_throttles_clock import Epochs
from notifier.ports.user_directory_and_account_flags import Directory
from notifier.ports.viewers_preferences_user_blocks import UserBlocks

T = TypeVar("T")
ShardsBySubject = Mapping[Subject, Collection[int]]
"""Shards to rebuild, by subject."""


@dataclass(slots=True, kw_only=True)
class GraphIndexer:
    directory: Directory
    bitmaps: Bitmaps
    """Writes the bitmaps. It also has the ports of the follow and preference rows."""
    user_blocks: UserBlocks
    epochs: Epochs
    owns_records: Callable[[], bool]
    """Asks the log whether this reader still owns the records that it has read."""

    def __call__(self, records: Sequence[Logged]) -> None:
        """Write the rows and bitmaps of the changes. Idempotent: after an interruption the records are read again.

        Raises LogUnavailable if another reader owns the records now.
        """
        token = fencing_token(self.epochs.begin("graph_indexer"))
        # Check after the epoch has begun: a reader that takes the partition after this check gets a higher token. In
        # the opposite order, we could lose the partition after the check, and then begin the higher epoch.
        if not self.owns_records():
            raise LogUnavailable("Another consumer owns the partition.")
        graph_records = [unpack(GraphRecord, logged.record.value) for logged in records]
        # Write user blocks first, because they should take effect as early as possible.
        self._write_user_blocks([record.user_block_change for record in graph_records if record.user_block_change])
        shards_to_repair = _shards_to_rebuild(
            graph_records, lambda rebuild: not rebuild.has_imported_follows and not rebuild.has_imported_preferences
        )
        follow_import_shards = _shards_to_rebuild(graph_records, lambda rebuild: rebuild.has_imported_follows)
        preference_import_shards = _shards_to_rebuild(graph_records, lambda rebuild: rebuild.has_imported_preferences)
        self._update_follows(
            [record.change for record in graph_records if record.change], shards_to_repair, follow_import_shards, token
        )
        self._update_preferences(
            [record.preference_change for record in graph_records if record.preference_change],
            shards_to_repair,
            preference_import_shards,
            token,
        )
        account_wide_requests = {
            (record.account_wide_shard, record.imported)
            for record in graph_records
            if record.account_wide_shard is not None
        }
        self._update_account_preferences(
            [record.account_preferences_change for record in graph_records if record.account_preferences_change],
            {shard for shard, imported in account_wide_requests if not imported},
            {shard for shard, imported in account_wide_requests if imported},
            token,
        )

    def _write_user_blocks(self, changes: Sequence[UserBlockChange]) -> None:
        if not changes:
            return
        members = self.directory.assign_numbers(
            [user for change in changes for user in (change.blocker, change.blocked)]
        )
        self.user_blocks.write([change.user_block(members) for change in changes])

    def _update_follows(
        self,
        changes: Sequence[FollowChange],
        shards_to_repair: ShardsBySubject,
        imported_shards: ShardsBySubject,
        token: FencingToken,
    ) -> None:
        # Number the followed accounts, too: only accounts with a number can be mentioned.
        members = self.directory.assign_numbers(
            [user for change in changes for user in (change.follower, change.followed)]
        )
        self.bitmaps.follows.write([change.follow_row(members[change.follower]) for change in changes])
        pairs = {(change.subject, members[change.follower]) for change in changes}
        current_follows = _group_by_subject(self.bitmaps.follows.read_current(pairs))
        if subjects := current_follows.keys() | shards_to_repair.keys() | imported_shards.keys():
            self.bitmaps.update_follows(
                {
                    subject: FollowChanges(
                        follows_by_member=current_follows.get(subject, {}),
                        shards_to_repair=shards_to_repair.get(subject, ()),
                        imported_shards=imported_shards.get(subject, ()),
                    )
                    for subject in subjects
                },
                token,
            )

    def _update_preferences(
        self,
        changes: Sequence[PreferenceChange],
        shards_to_repair: ShardsBySubject,
        imported_shards: ShardsBySubject,
        token: FencingToken,
    ) -> None:
        self.bitmaps.subject_preferences.write(changes)
        current_preferences = _group_by_subject(
            self.bitmaps.subject_preferences.read_own({(change.subject, change.member) for change in changes})
        )
        subjects = current_preferences.keys() | shards_to_repair.keys() | imported_shards.keys()
        self.bitmaps.update_preferences(
            {
                subject: PreferenceChanges(
                    preference_by_member=current_preferences.get(subject, {}),
                    shards_to_repair=shards_to_repair.get(subject, ()),
                    imported_shards=imported_shards.get(subject, ()),
                )
                for subject in subjects
            },
            token,
        )

    def _update_account_preferences(
        self,
        changes: Sequence[AccountPreferencesChange],
        shards_to_repair: Collection[int],
        imported_shards: Collection[int],
        token: FencingToken,
    ) -> None:
        if not changes and not shards_to_repair and not imported_shards:
            return
        self.bitmaps.account_preferences.write(changes)
        current_preferences = self.bitmaps.account_preferences.read_current({change.member for change in changes})
        self.bitmaps.update_account_preferences(current_preferences, shards_to_repair, imported_shards, token)


def _shards_to_rebuild(records: Iterable[GraphRecord], matches: Callable[[Rebuild], bool]) -> ShardsBySubject:
    shards_by_subject = defaultdict[Subject, set[int]](set)
    for rebuild in (record.rebuild for record in records if record.rebuild and matches(record.rebuild)):
        shards_by_subject[rebuild.subject].update(rebuild.shards)
    return shards_by_subject


def _group_by_subject(by_pair: Mapping[tuple[Subject, Member], T]) -> Mapping[Subject, Mapping[Member, T]]:
    by_subject: defaultdict[Subject, dict[Member, T]] = defaultdict(dict)
    for (subject, member), value in by_pair.items():
        by_subject[subject][member] = value
    return by_subject

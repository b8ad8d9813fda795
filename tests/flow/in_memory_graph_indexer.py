"""A graph indexer with ports in memory and a log of one partition."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

from notifier import topics
from notifier.codec import pack
from notifier.domain.audience.bitmap import from_offsets, members
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.errors import Poison, StoreUnavailable
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.upstream.graph_stream_records import FollowAction, FollowChange, GraphRecord, Rebuild, shard_key
from notifier.domain.users.account_preferences import ACCOUNT_PREFERENCE_SETS, AccountPreferencesChange
from notifier.domain.users.subject_preferences import (
    ALWAYS,
    NEVER,
    SUBJECT_PREFERENCE_SETS,
    PreferencePatch,
    SubjectPreference,
    Volume,
)
from notifier.domain.users.user_blocks import UserBlockChange
from notifier.flow.imports.import_runner_accounts_preferences import Import
from notifier.flow.inbox.preference_editor import account_preferences_record
from notifier.flow.indexing.bitmap_updates_and_repair import Bitmaps
from notifier.flow.indexing.graph_indexer import GraphIndexer
from notifier.metrics import Metrics
from notifier.ports.audience import ShardBitmap
from notifier.ports.event_log_and_dead_letters import Logged, Record
from notifier.ports.import_batches_and_key_sort import ImportBatch
from tests.support.fakes.activity_member_sets_and_follows import MemoryFollows, MemoryMemberSets
from tests.support.fakes.clock_and_nonces import START
from tests.support.fakes.epochs_leases_queues_throttles import MemoryEpochs
from tests.support.fakes.follow_import import MemoryFollowRuns
from tests.support.fakes.preferences_and_user_blocks import (
    MemoryAccountPreferences,
    MemorySubjectPreferences,
    MemoryUserBlocks,
)
from tests.support.fakes.user_directory_and_account_flags import MemoryDirectory
from tests.support.fakes.viewer_facts import MemoryPeople

Row = TypeVar("Row")

NOVA, LYRA = UserId("nova"), UserId("lyra")
MUTED, UNMUTED = PreferencePatch(muted_until=NEVER), PreferencePatch(muted_until=ALWAYS)
OFF, FIRST = PreferencePatch(volume=Volume.OFF), PreferencePatch(volume=Volume.FIRST)


@dataclass
class Graph:
    directory: MemoryDirectory = field(default_factory=MemoryDirectory)
    epochs: MemoryEpochs = field(default_factory=MemoryEpochs)
    sets: MemoryMemberSets = field(init=False)
    people: MemoryPeople = field(init=False)
    follows: MemoryFollows = field(init=False)
    subject_preferences: MemorySubjectPreferences = field(init=False)
    metrics: Metrics = field(default_factory=Metrics)
    records: list[Logged] = field(default_factory=list)
    preferences: dict[tuple[str, UserId], SubjectPreference] = field(default_factory=dict)
    lost_partition: bool = False
    """Whether another process has the partition by now."""

    def __post_init__(self) -> None:
        self.sets = MemoryMemberSets(self.directory)
        self.people = people = MemoryPeople(self.directory)
        self.follows, self.subject_preferences, self.account_preferences = (
            MemoryFollows(people),
            MemorySubjectPreferences(people),
            MemoryAccountPreferences(people),
        )
        self.user_blocks = MemoryUserBlocks(people)

    def indexer(self, **ports: Any) -> GraphIndexer:
        rows: dict[str, Any] = {
            "follows": self.follows,
            "subject_preferences": self.subject_preferences,
            "account_preferences": self.account_preferences,
            "sets": self.sets,
        }
        bitmaps = Bitmaps(**{name: ports.get(name, port) for name, port in rows.items()}, metrics=self.metrics)
        ports_by_name = {"directory": self.directory, "user_blocks": self.user_blocks, "epochs": self.epochs}
        own: dict[str, Any] = {name: ports.get(name, port) for name, port in ports_by_name.items()}
        return GraphIndexer(bitmaps=bitmaps, **own, owns_records=lambda: not self.lost_partition)

    def change_follow(
        self, follower: str, action: FollowAction = FollowAction.FOLLOW, *, of: UserId = NOVA, sequence: int = 0
    ) -> Logged:
        change = FollowChange(
            id=EventId("graph", str(len(self.records))),
            follower=UserId(follower),
            followed=of,
            action=action,
            sequence=sequence or len(self.records) + 1,
            at=START,
        )
        return self._logged(of, GraphRecord(change=change))

    def change_block(self, blocker: str, blocked: str, *, blocks: bool = True, sequence: int = 0) -> Logged:
        change = UserBlockChange(
            id=EventId("graph", str(len(self.records))),
            blocker=UserId(blocker),
            blocked=UserId(blocked),
            blocks=blocks,
            sequence=sequence or len(self.records) + 1,
            at=START,
        )
        return self._logged(change.blocker, GraphRecord(user_block_change=change))

    def rebuild(self, *shards: int, of: UserId = NOVA) -> Logged:
        return self._logged(of, GraphRecord(rebuild=Rebuild(followed=of, shards=shards)))

    def change_preference(self, user: str, patch: PreferencePatch, *, of: UserId = NOVA, at: int = 0) -> Logged:
        """Append a preference change that the user makes `at` seconds after the start."""
        member = self.directory.assign_numbers([UserId(user)])[UserId(user)]
        before = self.preferences.get(
            (user, of), SubjectPreference(subject=Subject(Kind.MENTION, of), member=member, at=ALWAYS)
        )
        change = patch.change_for(before, START + timedelta(seconds=at or len(self.records) + 1))
        change = replace(change, at=START + timedelta(seconds=at)) if at else change
        self.preferences[user, of] = before.apply(change)
        return self._logged(of, GraphRecord(preference_change=change))

    def change_account_preferences(self, user: str, *, at: int = 0, **fields: Any) -> Logged:
        """Append a change of the user's account-wide preferences."""
        member = self.directory.assign_numbers([UserId(user)])[UserId(user)]
        change = AccountPreferencesChange(
            member=member, at=START + timedelta(seconds=at or len(self.records) + 1), **fields
        )
        return self._append(account_preferences_record(change))

    def rebuild_account_preferences(self, shard: int) -> Logged:
        """Append an order to rebuild the bitmaps of account-wide preferences of a shard."""
        return self._append(
            Record(stream=topics.FOLLOWS, key=shard_key(shard), value=pack(GraphRecord(account_wide_shard=shard)))
        )

    def _append(self, record: Record) -> Logged:
        self.records.append(Logged(partition="follows/0", offset=len(self.records), record=record))
        return self.records[-1]

    def _logged(self, of: UserId, graph_record: GraphRecord) -> Logged:
        return self._append(Record(stream=topics.FOLLOWS, key=of, value=pack(graph_record)))

    def counted(self, metric: str) -> float:
        return self.metrics.registry.get_sample_value(f"notifier_bitmaps_{metric}_total") or 0

    def followers(self, of: UserId = NOVA) -> set[str]:
        """Return the followers by the bitmaps, which must agree with the head."""
        subject = Subject(Kind.MENTION, of)
        head, followers = self.sets.follower_counts(subject), set[Member]()
        for shard, total in enumerate(head.by_shard):
            bits = self.sets.read(SetKind.FOLLOWERS, subject, [shard]).get(shard, from_offsets([]))
            followers |= {*members(bits, shard)}
            assert total == len(members(bits, shard))
        assert head.total == len(followers)
        return set(self.directory.users(followers).values())

    def preference_bitmaps(self, of: UserId = NOVA) -> dict[str, set[str]]:
        """Return the users in each bitmap of subject preferences."""
        subject, users = Subject(Kind.MENTION, of), dict[str, set[str]]()
        for kind in SUBJECT_PREFERENCE_SETS:
            bitmaps = self.sets.read(kind, subject, range(4))
            members_in_set = [member for shard, bits in bitmaps.items() for member in members(bits, shard)]
            if members_in_set:
                users[str(kind)] = set(self.directory.users(members_in_set).values())
        return users

    def account_bitmaps(self) -> dict[str, set[str]]:
        """Return the users in each bitmap of account-wide preferences."""
        users = dict[str, set[str]]()
        for kind in ACCOUNT_PREFERENCE_SETS:
            bitmaps = self.sets.read(kind, None, range(4))
            members_in_set = [member for shard, bits in bitmaps.items() for member in members(bits, shard)]
            if members_in_set:
                users[str(kind)] = set(self.directory.users(members_in_set).values())
        return users

    def blocked_users(self) -> dict[str, set[str]]:
        """Return the users that each user does not see because of a block."""
        viewers = self.people.known().values()
        return {viewer.user: set(viewer.blocked) for viewer in viewers if viewer.blocked}

    def shards_missing_in_head(self, of: UserId = NOVA) -> list[int]:
        """Return shards with followers that the head does not name: a plan would leave them out."""
        subject = Subject(Kind.MENTION, of)
        counts = dict(enumerate(self.sets.follower_counts(subject).by_shard))
        bitmaps = self.sets.read(SetKind.FOLLOWERS, subject, range(4))
        return [shard for shard, bits in bitmaps.items() if bits.any() and not counts.get(shard)]


@dataclass(frozen=True)
class Corrupt:
    """Raises Poison for every bitmap."""

    port: MemoryMemberSets

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def read(self, *_: object) -> Any:
        raise Poison("A bit has flipped.")


@dataclass
class Fuse:
    """Lets a number of calls of any port through; all later ones fail, the first of them after its effect."""

    calls: int

    def on(self, port: object) -> Any:
        fuse = self

        class Fused:
            def __getattr__(self, name: str) -> Callable[..., Any]:
                def call(*args: Any, **kwargs: Any) -> Any:
                    fuse.calls -= 1
                    if fuse.calls < -1:
                        raise StoreUnavailable
                    result = getattr(port, name)(*args, **kwargs)
                    if fuse.calls < 0:
                        raise StoreUnavailable
                    return result

                return call

        return Fused()


class StallsBeforeWrite:
    """Member sets that run other code between reading bitmaps and writing them."""

    def __init__(self, sets: MemoryMemberSets, meanwhile: Callable[[], None]) -> None:
        self.sets, self.meanwhile = sets, meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sets, name)

    def put(self, bitmaps: Iterable[ShardBitmap], *args: Any) -> None:
        self.meanwhile()
        self.sets.put(bitmaps, *args)


def import_with_crashes(
    importer: Callable[[Fuse], Import[ImportBatch[Row]]],
    batches: Sequence[ImportBatch[Row]],
    runs: MemoryFollowRuns,
    crashes: list[int],
) -> None:
    """Import all batches and crash after each number of calls; each run resumes where the last one stopped."""
    for calls in (*crashes, 10_000):
        crashing = importer(Fuse(calls))
        try:
            crashing.read([batch for batch in batches if batch.rows_read > runs.rows_read()])
            crashing.write()
            break
        except StoreUnavailable:
            continue

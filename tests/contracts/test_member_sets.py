"""Member sets, as read for audience snapshots and for plans."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, all_members, from_flags, from_offsets, members
from notifier.domain.audience.tiers_and_member_sets import ACCOUNT_WIDE_SETS, SUBJECT_SETS, SetKind, ShardSets
from notifier.domain.audience.user_ids_to_members import IdRange
from notifier.domain.delivery.plan import NO_FOLLOWERS, FollowerCounts
from notifier.domain.errors import Poison
from notifier.domain.fencing import fencing_token
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.ports.audience import ShardBitmap
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.contracts.memory_and_sqlite_backends import Backend, in_memory

NOVA = Subject(Kind.MENTION, UserId("nova"))
ADA = Subject(Kind.MENTION, UserId("ada"))


def put(backend: Backend, kind: SetKind, owner: Subject | None, *offsets: int, shard: int = 0) -> None:
    backend.sets.put([ShardBitmap(kind=kind, owner=owner, shard=shard, bits=from_offsets(offsets))])


def members_by_kind(live: ShardSets) -> dict[SetKind, list[Member]]:
    return {kind: members(bits, 0) for kind, bits in live.sets.items()}


def test_live_returns_all_sets_of_subject_and_of_all_users(backend: Backend) -> None:
    for offset, kind in enumerate(SUBJECT_SETS):
        put(backend, kind, NOVA, offset)
    for offset, kind in enumerate(ACCOUNT_WIDE_SETS, 100):
        put(backend, kind, None, offset)
    expected = {kind: [offset] for offset, kind in enumerate(SUBJECT_SETS)}
    assert members_by_kind(backend.sets.live(NOVA, [0])[0]) == expected | {
        kind: [offset] for offset, kind in enumerate(ACCOUNT_WIDE_SETS, 100)
    }


def test_live_excludes_other_shards_and_subjects(backend: Backend) -> None:
    put(backend, SetKind.FOLLOWERS, NOVA, 1, shard=1)
    put(backend, SetKind.FOLLOWERS, ADA, 2)
    put(backend, SetKind.VIP, None, 3, shard=1)
    assert members_by_kind(backend.sets.live(NOVA, [0])[0]) == {}


def test_put_replaces_shard(backend: Backend) -> None:
    put(backend, SetKind.FOLLOWERS, NOVA, 1, 2)
    put(backend, SetKind.FOLLOWERS, NOVA, 2, 3)
    assert members_by_kind(backend.sets.live(NOVA, [0])[0]) == {SetKind.FOLLOWERS: [2, 3]}


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_set_of_any_density_is_read_as_written(backend: Backend, share: float) -> None:
    bits = from_flags(np.random.default_rng(7).random(SHARD_MEMBERS) < share)
    backend.sets.put([ShardBitmap(kind=SetKind.FOLLOWERS, owner=NOVA, shard=5, bits=bits)])
    assert np.array_equal(backend.sets.live(NOVA, [5])[0][SetKind.FOLLOWERS], bits)


def test_restricted_burst_includes_followers_of_its_author(backend: Backend) -> None:
    put(backend, SetKind.FOLLOWERS, NOVA, 1, 2)
    put(backend, SetKind.FOLLOWERS, ADA, 2, 3)
    put(backend, SetKind.MUTED, ADA, 1)
    live = backend.sets.live(NOVA, [0], restricted_to=UserId("ada"))[0]
    assert members_by_kind(live) == {SetKind.FOLLOWERS: [1, 2]}
    assert live.mentioner_followers is not None
    assert members(live.mentioner_followers, 0) == [2, 3]


def test_restricted_personal_subject_includes_followers_of_author(backend: Backend) -> None:
    backend.directory.enrol([DirectoryEntry(user=NOVA.owner, member=Member(7))])
    put(backend, SetKind.FOLLOWERS, ADA, 2, 3)
    live = backend.sets.live(Subject(Kind.SELF, NOVA.owner), [0], restricted_to=UserId("ada"))[0]
    assert members_by_kind(live)[SetKind.FOLLOWERS] == [7]
    assert live.mentioner_followers is not None
    assert members(live.mentioner_followers, 0) == [2, 3]


def test_author_without_followers_restricts_to_no_one(backend: Backend) -> None:
    put(backend, SetKind.FOLLOWERS, NOVA, 1)
    followers = backend.sets.live(NOVA, [0], restricted_to=UserId("ada"))[0].mentioner_followers
    assert followers is not None
    assert members(followers, 0) == []


def test_unrestricted_burst_has_no_author_followers(backend: Backend) -> None:
    assert backend.sets.live(NOVA, [0])[0].mentioner_followers is None


def test_personal_subject_has_only_its_owner_as_follower(backend: Backend) -> None:
    own = Subject(Kind.SELF, UserId("u5"))
    backend.directory.enrol_range(IdRange(prefix="u", first=0, count=10, first_member=Member(2 * SHARD_MEMBERS)))
    backend.sets.put([ShardBitmap(kind=SetKind.WITH_DEVICE, owner=None, shard=2, bits=all_members())])
    put(backend, SetKind.NO_PUSH, None, 7, shard=2)
    put(backend, SetKind.PUSH_OPT_IN, None, 6, shard=2)
    put(backend, SetKind.OVERALL_OFF, None, 5, shard=2)
    put(backend, SetKind.MUTED, own, 5, shard=2)
    live = backend.sets.live(own, [2])[0]
    assert members(live[SetKind.FOLLOWERS], 2) == [2 * SHARD_MEMBERS + 5]
    assert np.array_equal(live[SetKind.WITH_DEVICE], all_members())
    assert members(live[SetKind.NO_PUSH], 2) == [2 * SHARD_MEMBERS + 7]
    assert members(live[SetKind.PUSH_OPT_IN], 2) == [2 * SHARD_MEMBERS + 6]
    assert members(live[SetKind.MUTED], 2) == members(live[SetKind.OVERALL_OFF], 2) == []
    assert members_by_kind(backend.sets.live(own, [1])[0]) == {}


def test_personal_subject_counts_one_follower_in_owners_shard(backend: Backend) -> None:
    backend.directory.enrol([DirectoryEntry(user=UserId("u5"), member=Member(2 * SHARD_MEMBERS + 5))])
    counts = backend.sets.follower_counts(Subject(Kind.SELF, UserId("u5")))
    assert (counts.total, list(counts.by_shard)) == (1, [0, 0, 1])


@pytest.mark.parametrize("deleted", [True, False])
def test_personal_subject_without_owner_has_no_audience(backend: Backend, deleted: bool) -> None:
    if deleted:
        backend.directory.enrol([DirectoryEntry(user=UserId("gone"), member=Member(5), deleted=True)])
    own = Subject(Kind.SELF, UserId("gone"))
    assert backend.sets.follower_counts(own) == NO_FOLLOWERS
    assert members_by_kind(backend.sets.live(own, [0])[0]) == {}


def test_follower_counts_are_read_as_written_and_replaced(backend: Backend) -> None:
    backend.sets.put_follower_counts({NOVA: FollowerCounts(total=1, by_shard=(1,))})
    backend.sets.put_follower_counts({NOVA: FollowerCounts(total=131_075, by_shard=(131_072, 0, 3))})
    counts = backend.sets.follower_counts(NOVA)
    assert (counts.total, list(counts.by_shard)) == (131_075, [131_072, 0, 3])


def test_subject_without_follower_counts_has_no_followers(backend: Backend) -> None:
    assert backend.sets.follower_counts(NOVA) == NO_FOLLOWERS


def test_newer_fencing_token_wins(backend: Backend) -> None:
    old, new = fencing_token(1), fencing_token(2)
    for token, offset in ((new, 2), (old, 1)):
        backend.sets.put([ShardBitmap(kind=SetKind.FOLLOWERS, owner=NOVA, shard=0, bits=from_offsets([offset]))], token)
        backend.sets.put_follower_counts({NOVA: FollowerCounts(total=offset, by_shard=(offset,))}, token)
    assert members_by_kind(backend.sets.live(NOVA, [0])[0]) == {SetKind.FOLLOWERS: [2]}
    assert backend.sets.follower_counts(NOVA).total == 2


def test_fenced_write_beats_import(backend: Backend) -> None:
    put(backend, SetKind.FOLLOWERS, NOVA, 1)
    backend.sets.put_follower_counts({NOVA: FollowerCounts(total=1, by_shard=(1,))})
    backend.sets.put(
        [ShardBitmap(kind=SetKind.FOLLOWERS, owner=NOVA, shard=0, bits=from_offsets([2]))], fencing_token(0)
    )
    backend.sets.put_follower_counts({NOVA: FollowerCounts(total=2, by_shard=(2,))}, fencing_token(0))
    put(backend, SetKind.FOLLOWERS, NOVA, 3)
    backend.sets.put_follower_counts({NOVA: FollowerCounts(total=3, by_shard=(3,))})
    assert members_by_kind(backend.sets.live(NOVA, [0])[0]) == {SetKind.FOLLOWERS: [2]}
    assert backend.sets.follower_counts(NOVA).total == 2


def test_set_is_read_from_shards_that_have_it(backend: Backend) -> None:
    put(backend, SetKind.FOLLOWERS, NOVA, 1, shard=1)
    put(backend, SetKind.FOLLOWERS, NOVA, 2, shard=3)
    put(backend, SetKind.MUTED, NOVA, 3, shard=2)
    put(backend, SetKind.VIP, None, 4, shard=2)
    read_set = backend.sets.read
    followers = {shard: members(bits, 0) for shard, bits in read_set(SetKind.FOLLOWERS, NOVA, [1, 2, 3]).items()}
    assert followers == {1: [1], 3: [2]}
    assert [members(bits, 0) for bits in read_set(SetKind.VIP, None, [2]).values()] == [[4]]


def test_import_of_many_shards_is_complete(backend: Backend) -> None:
    bits: Bits = from_offsets([1])
    backend.sets.put(ShardBitmap(kind=SetKind.FOLLOWERS, owner=NOVA, shard=shard, bits=bits) for shard in range(600))
    shard_sets = backend.sets.live(NOVA, range(600))
    assert all(members(shard_set[SetKind.FOLLOWERS], 0) == [1] for shard_set in shard_sets)
    assert len(shard_sets) == 600


def test_unreadable_bitmap_is_poison(sqlite: Backend, files: Files) -> None:
    with files.core.write() as c:
        c.execute("INSERT INTO member_sets (owner, shard, kind, blob) VALUES ('mention:nova', 0, 'followers', 'x')")
    with pytest.raises(Poison):
        sqlite.sets.live(NOVA, [0])[0]


@given(st.sets(st.integers(0, SHARD_MEMBERS - 1), max_size=50), st.sets(st.integers(0, SHARD_MEMBERS - 1), max_size=50))
def test_in_memory_set_is_a_copy(first: set[int], second: set[int]) -> None:
    backend = in_memory()
    bits = from_offsets(first).copy()
    backend.sets.put([ShardBitmap(kind=SetKind.VIP, owner=None, shard=0, bits=bits)])
    bits[:] = from_offsets(second)
    assert set(members(backend.sets.live(NOVA, [0])[0][SetKind.VIP], 0)) == first

"""Active sets on every backend: members, and the hour at which they expire."""

import pytest

from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.domain.audience.activity import FOREVER, hour_of
from notifier.domain.audience.bitmap import SHARD_MEMBERS, from_offsets, members
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.errors import Poison
from notifier.domain.fencing import FencingToken, fencing_token
from notifier.domain.ids import Member
from notifier.ports.audience import ActiveSetEntry
from tests.contracts.memory_and_sqlite_backends import Backend
from tests.support.fakes.clock_and_nonces import START

NOW = hour_of(START)
DAILY, MONTHLY = SetKind.ACTIVE_24H, SetKind.ACTIVE_30D


def put(
    backend: Backend,
    *places: int,
    until: int,
    kind: SetKind = DAILY,
    shard: int = 0,
    at: int | None = None,
) -> None:
    entry = ActiveSetEntry(kind=kind, last_hour=until, shard=shard, bits=from_offsets(places))
    backend.active_sets.put([entry], None if at is None else fencing_token(at))


def active_members(backend: Backend, hour: int, *shards: int, kind: SetKind = DAILY) -> dict[int, list[Member]]:
    bits_by_shard = backend.active_sets.read_active(kind, hour, shards or (0,))
    return {shard: members(bits, shard) for shard, bits in bits_by_shard.items()}


def members_expiring_at(backend: Backend, hour: int, *shards: int, kind: SetKind = DAILY) -> dict[int, list[Member]]:
    bits_by_shard = backend.active_sets.read_expiring(kind, hour, shards or (0,))
    return {shard: members(bits, shard) for shard, bits in bits_by_shard.items()}


def test_entry_is_active_until_its_hour_and_not_later(backend: Backend) -> None:
    put(backend, 1, until=NOW)
    assert active_members(backend, NOW) == {0: [1]}
    assert active_members(backend, NOW + 1) == {}


def test_members_of_all_valid_entries_are_combined(backend: Backend) -> None:
    put(backend, 1, until=NOW)
    put(backend, 2, 3, until=NOW + 1)
    put(backend, 3, 4, until=NOW + 900)
    assert active_members(backend, NOW) == {0: [1, 2, 3, 4]}
    assert active_members(backend, NOW + 1) == {0: [2, 3, 4]}
    assert active_members(backend, NOW + 2) == {0: [3, 4]}


def test_sets_and_shards_are_independent(backend: Backend) -> None:
    put(backend, 1, until=NOW)
    put(backend, 2, until=NOW, shard=2)
    put(backend, 3, until=NOW, kind=MONTHLY)
    assert active_members(backend, NOW, 0, 1, 2) == {0: [1], 2: [2 * SHARD_MEMBERS + 2]}
    assert active_members(backend, NOW, 1, 2, kind=MONTHLY) == {}


def test_entries_of_one_hour_are_read_as_written(backend: Backend) -> None:
    put(backend, 1, until=NOW)
    put(backend, 2, until=NOW + 1)
    assert members_expiring_at(backend, NOW, 0, 1) == {0: [1]}
    assert members_expiring_at(backend, NOW + 2) == {}


def test_put_replaces_entry(backend: Backend) -> None:
    put(backend, 1, until=NOW)
    put(backend, 2, until=NOW)
    assert members_expiring_at(backend, NOW) == {0: [2]}


def test_entry_without_end_is_always_active(backend: Backend) -> None:
    put(backend, 1, until=FOREVER)
    assert active_members(backend, NOW + 1_000_000) == {0: [1]}
    assert active_members(backend, FOREVER) == {0: [1]}


def test_newer_fencing_token_wins_and_both_beat_import(backend: Backend) -> None:
    put(backend, 1, until=NOW)
    put(backend, 3, until=NOW, at=2)
    put(backend, 2, until=NOW, at=1)
    put(backend, 4, until=NOW)
    assert members_expiring_at(backend, NOW) == {0: [3]}


def test_delete_expired_keeps_valid_entries(backend: Backend) -> None:
    put(backend, 1, until=NOW)
    put(backend, 2, until=NOW + 1)
    put(backend, 3, until=FOREVER)
    backend.active_sets.delete_expired(NOW + 1)
    assert active_members(backend, NOW + 1) == {0: [2, 3]}


@pytest.mark.parametrize("at", [None, fencing_token(7)])
def test_import_of_many_shards_is_complete(backend: Backend, at: FencingToken | None) -> None:
    bits = from_offsets([1])
    backend.active_sets.put(
        (ActiveSetEntry(kind=DAILY, last_hour=FOREVER, shard=shard, bits=bits) for shard in range(600)), at
    )
    bits_by_shard = backend.active_sets.read_active(DAILY, NOW, range(600))
    assert all(members(bits_, 0) == [1] for bits_ in bits_by_shard.values())
    assert len(bits_by_shard) == 600


def test_unreadable_bitmap_is_poison(sqlite: Backend, files: Files) -> None:
    with files.core.write() as c:
        c.execute(
            "INSERT INTO active_set_entries (kind, shard, last_hour, blob) VALUES ('active24h', 0, ?, 'x')", (NOW,)
        )
    with pytest.raises(Poison):
        active_members(sqlite, NOW)

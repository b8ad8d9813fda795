"""The stays: who is in which set of the active, until which hour; on every backend."""

import pytest

from notifier.adapters.sqlite.files import Files
from notifier.domain.audience.activity import FOREVER, hour_of
from notifier.domain.audience.bitmap import SHARD_MEMBERS, from_offsets, members
from notifier.domain.audience.tiers import SetKind
from notifier.domain.errors import Poison
from notifier.domain.fencing import Stamp, stamp
from notifier.domain.ids import Member
from notifier.ports.audience import Stay
from tests.contracts.backends import Backend
from tests.support.fakes.clock import START

NOW = hour_of(START)
DAILY, MONTHLY = SetKind.ACTIVE_24H, SetKind.ACTIVE_30D


def put(
    backend: Backend, *places: int, until: int, kind: SetKind = DAILY, shard: int = 0, at: int | None = None
) -> None:
    said = Stay(kind=kind, until=until, shard=shard, bits=from_offsets(places))
    backend.stays.put([said], None if at is None else stamp(at))


def standing(backend: Backend, hour: int, *shards: int, kind: SetKind = DAILY) -> dict[int, list[Member]]:
    found = backend.stays.standing(kind, hour, shards or (0,))
    return {shard: members(bits, shard) for shard, bits in found.items()}


def until(backend: Backend, hour: int, *shards: int, kind: SetKind = DAILY) -> dict[int, list[Member]]:
    found = backend.stays.until(kind, hour, shards or (0,))
    return {shard: members(bits, shard) for shard, bits in found.items()}


def test_who_stays_until_an_hour_is_there_in_it_and_not_behind_it(backend: Backend) -> None:
    put(backend, 1, until=NOW)
    assert standing(backend, NOW) == {0: [1]}
    assert standing(backend, NOW + 1) == {}


def test_all_who_still_stay_are_together(backend: Backend) -> None:
    put(backend, 1, until=NOW)
    put(backend, 2, 3, until=NOW + 1)
    put(backend, 3, 4, until=NOW + 900)
    assert standing(backend, NOW) == {0: [1, 2, 3, 4]}
    assert standing(backend, NOW + 1) == {0: [2, 3, 4]}
    assert standing(backend, NOW + 2) == {0: [3, 4]}


def test_another_set_and_another_shard_are_another(backend: Backend) -> None:
    put(backend, 1, until=NOW)
    put(backend, 2, until=NOW, shard=2)
    put(backend, 3, until=NOW, kind=MONTHLY)
    assert standing(backend, NOW, 0, 1, 2) == {0: [1], 2: [2 * SHARD_MEMBERS + 2]}
    assert standing(backend, NOW, 1, 2, kind=MONTHLY) == {}


def test_one_hours_stays_are_read_as_they_were_put(backend: Backend) -> None:
    put(backend, 1, until=NOW)
    put(backend, 2, until=NOW + 1)
    assert until(backend, NOW, 0, 1) == {0: [1]}
    assert until(backend, NOW + 2) == {}


def test_putting_replaces(backend: Backend) -> None:
    put(backend, 1, until=NOW)
    put(backend, 2, until=NOW)
    assert until(backend, NOW) == {0: [2]}


def test_what_never_ends_is_there_in_every_hour(backend: Backend) -> None:
    put(backend, 1, until=FOREVER)
    assert standing(backend, NOW + 1_000_000) == {0: [1]}
    assert standing(backend, FOREVER) == {0: [1]}


def test_of_two_writers_the_later_stamp_stands_and_an_import_is_before_both(backend: Backend) -> None:
    put(backend, 1, until=NOW)
    put(backend, 3, until=NOW, at=2)
    put(backend, 2, until=NOW, at=1)
    put(backend, 4, until=NOW)
    assert until(backend, NOW) == {0: [3]}


def test_what_ended_may_be_forgotten_and_nothing_else_is(backend: Backend) -> None:
    put(backend, 1, until=NOW)
    put(backend, 2, until=NOW + 1)
    put(backend, 3, until=FOREVER)
    backend.stays.forget(NOW + 1)
    assert standing(backend, NOW + 1) == {0: [2, 3]}


@pytest.mark.parametrize("at", [None, stamp(7)])
def test_an_import_of_many_shards_is_all_there(backend: Backend, at: Stamp | None) -> None:
    bits = from_offsets([1])
    backend.stays.put((Stay(kind=DAILY, until=FOREVER, shard=s, bits=bits) for s in range(600)), at)
    found = backend.stays.standing(DAILY, NOW, range(600))
    assert all(members(one, 0) == [1] for one in found.values())
    assert len(found) == 600


def test_a_stored_bitmap_that_can_not_be_read_is_poison(sqlite: Backend, files: Files) -> None:
    with files.core.write() as c:
        c.execute("INSERT INTO stays (kind, shard, until, blob) VALUES ('active24h', 0, ?, 'x')", (NOW,))
    with pytest.raises(Poison):
        standing(sqlite, NOW)

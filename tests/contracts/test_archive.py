"""The archive: everything in the store, as facts, whatever the size of its pages."""

from collections.abc import Iterable
from datetime import timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.domain.audience import Tier
from notifier.domain.bits import SHARD_BLOCKS, SHARD_MEMBERS, from_offsets
from notifier.domain.block import BLOCK_SLOT, INBOX_WINDOW, cut
from notifier.domain.ledger import Entry, Fact
from notifier.domain.subject import BurstKey
from notifier.ports.archive import StoredRow
from notifier.testing.memory.clock import START
from tests.contracts.backends import Backend, in_memory
from tests.contracts.made import NOVA, ORION, burst, piece, plan, seal

Told = tuple[int, int, str, str]
"""Block, slot, burst and tier."""


def told(rows: Iterable[StoredRow]) -> list[Told]:
    return sorted((stored.block, stored.row.slot, str(stored.row.burst), str(stored.row.tier)) for stored in rows)


def write(backend: Backend, key: BurstKey, places: Iterable[int], *, shard: int = 0, tier: Tier = Tier.P1) -> None:
    """Rows of a burst that opened as many inbox windows after START as it has bursts before it."""
    opened_at = START + key.seq * INBOX_WINDOW
    bits = from_offsets(places)
    backend.inbox.write([cut(bits, burst=key, opened_at=opened_at, tier=tier, shard=shard, threshold=32)])


def test_bursts_are_all_there_once(backend: Backend) -> None:
    bursts = [burst(subject, seq) for subject in (NOVA, ORION) for seq in range(1, 301)]
    backend.bursts.write(bursts, [])
    assert sorted(backend.archive.bursts(), key=lambda found: found.key) == bursts


def test_accounts_say_what_the_ledger_says(backend: Backend) -> None:
    keys = [BurstKey(NOVA, seq) for seq in range(1, 301)]
    backend.ledger.plan([plan(key) for key in keys])
    backend.ledger.record([Entry(slice=piece(keys[7]), fact=Fact.DONE, at=START, people=5)])
    backend.ledger.close(keys[:10])
    found = sorted(backend.archive.accounts(), key=lambda account: account.plan.burst)
    assert [account.plan.burst for account in found] == keys
    assert found[7] == backend.ledger.read(keys)[keys[7]]


def test_seals_come_by_shard_and_of_their_burst_alone(backend: Backend) -> None:
    key, other = BurstKey(NOVA, 1), BurstKey(NOVA, 2)
    backend.ledger.plan([plan(key, shards=18), plan(other, shards=18)])
    backend.seals.insert(key, [seal(shard) for shard in (9, 0, 17, 3)])
    backend.seals.insert(other, [seal(5)])
    found = list(backend.archive.seals(key))
    assert [one.shard for one in found] == [0, 3, 9, 17]
    assert found[0].reached(Tier.P2) == 89_000


def test_an_empty_store_has_nothing_to_tell(backend: Backend) -> None:
    archive, key = backend.archive, BurstKey(NOVA, 1)
    told = [archive.bursts(), archive.accounts(), archive.seals(key), archive.rows(), archive.rows(key)]
    assert [list(each) for each in told] == [[], [], [], [], []]


def test_a_row_comes_back_as_it_was_written(backend: Backend) -> None:
    key = BurstKey(NOVA, 0)
    write(backend, key, [*range(40), 1024 + 7], shard=2)
    shared, single = sorted(backend.archive.rows(), key=lambda stored: stored.block)
    assert (shared.block, shared.row.slot, shared.row.burst) == (2 * SHARD_BLOCKS, BLOCK_SLOT, key)
    assert shared.row.members is not None
    assert shared.row.members == bytes([255] * 5 + [0] * 123)
    assert (single.block, single.row.slot, single.row.members) == (2 * SHARD_BLOCKS + 1, 7, None)
    assert (single.row.opened_at, single.row.tier) == (START, Tier.P1)


def test_rows_of_one_burst_are_told_without_the_others(backend: Backend) -> None:
    wanted, other = BurstKey(NOVA, 1), BurstKey(ORION, 1)
    opened_at = START + INBOX_WINDOW
    backend.bursts.write([burst(key.subject, key.seq, opened_at=opened_at) for key in (wanted, other)], [])
    backend.ledger.plan([plan(key, opened_at=opened_at, shards=14) for key in (wanted, other)])
    for key in (wanted, other, BurstKey(NOVA, 2)):
        for shard in (0, 8, 13):
            write(backend, key, [5, *range(1024, 1124), 90_000], shard=shard)
    found = told(backend.archive.rows(wanted))
    assert len(found) == 9
    assert found == [one for one in told(backend.archive.rows()) if one[2] == str(wanted)]


def test_many_rows_of_one_member_fill_several_pages_without_loss_or_repeat(backend: Backend) -> None:
    opened_at = [START + timedelta(milliseconds=n // 3) for n in range(700)]
    for n, moment in enumerate(opened_at):
        rows = cut(
            from_offsets([3]), burst=BurstKey(NOVA, n), opened_at=moment, tier=Tier.P2, shard=0, threshold=32
        )  # three of each moment: a page may end between them
        backend.inbox.write([rows])
    write(backend, BurstKey(ORION, 0), [2, 4, SHARD_MEMBERS - 1])
    found = told(backend.archive.rows())
    assert len(found) == len(set(found)) == 703


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(data=st.data())
def test_every_store_tells_the_same_rows_as_the_memory(backend: Backend, data: st.DataObject) -> None:
    memory = in_memory()
    places = st.sets(st.integers(0, 3_000), min_size=1, max_size=200)
    written = data.draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20), places), max_size=5))
    with_rows = [(BurstKey(NOVA, seq), shard, members) for seq, shard, members in written]
    before = set(told(backend.archive.rows()))
    for key, shard, members in with_rows:
        write(backend, key, members, shard=shard)
        write(memory, key, members, shard=shard)
    assert set(told(backend.archive.rows())) == before | set(told(memory.archive.rows()))

"""The archive: everything in the store, as facts, whatever the size of its pages."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import SHARD_MEMBERS, from_offsets
from notifier.domain.audience.inbox_rows import (
    BITMAP_FROM,
    INBOX_WINDOW,
    RANGE_BYTES,
    RANGE_MEMBERS,
    SHARD_RANGES,
    InboxRow,
    InboxRows,
    cut,
)
from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.ledger import Fact, LedgerEntry
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.ports.ledger import StoredRow
from tests.contracts.backends import Backend, in_memory
from tests.support.contract_examples import NOVA, ORION, burst, piece, plan, seal
from tests.support.fakes.clock import START

EXAMPLES = count(1)

Told = tuple[int, str, str, bytes]
"""Range, burst, tier and members."""


def told(rows: Iterable[StoredRow]) -> list[Told]:
    return sorted((one.member_range, str(one.row.burst), str(one.row.tier), one.row.members) for one in rows)


def opened_at(key: BurstKey) -> datetime:
    """As many inbox windows after START as the burst has bursts before it."""
    return START + key.seq * INBOX_WINDOW


def write(backend: Backend, key: BurstKey, places: Iterable[int], *, shard: int = 0, tier: Tier = Tier.P1) -> None:
    backend.inbox.write([cut(from_offsets(places), burst=key, opened_at=opened_at(key), tier=tier, shard=shard)])


def test_bursts_are_all_there_once(backend: Backend) -> None:
    bursts = [burst(subject, seq) for subject in (NOVA, ORION) for seq in range(1, 301)]
    backend.bursts.write(bursts, [])
    assert sorted(backend.archive.bursts(), key=lambda found: found.key) == bursts


def test_accounts_say_what_the_ledger_says(backend: Backend) -> None:
    keys = [BurstKey(NOVA, seq) for seq in range(1, 301)]
    backend.ledger.plan([plan(key) for key in keys])
    backend.ledger.record([LedgerEntry(slice=piece(keys[7]), fact=Fact.DONE, at=START, people=5)])
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
    many, few = range(BITMAP_FROM), [RANGE_MEMBERS + 7, RANGE_MEMBERS + 258]
    write(backend, key, [*many, *few], shard=2)
    bitmap, listed = sorted(backend.archive.rows(), key=lambda stored: stored.member_range)
    assert bitmap == StoredRow(
        member_range=2 * SHARD_RANGES,
        row=InboxRow(
            burst=key,
            opened_at=START,
            tier=Tier.P1,
            members=(b"\xff" * (BITMAP_FROM // 8)).ljust(RANGE_BYTES, b"\x00"),
        ),
    )
    assert listed == StoredRow(
        member_range=2 * SHARD_RANGES + 1,
        row=InboxRow(burst=key, opened_at=START, tier=Tier.P1, members=b"\x07\x00\x02\x01"),
    )


def test_rows_of_one_burst_are_told_without_the_others(backend: Backend) -> None:
    """The others opened at the same moment, and one has a number that begins with the same digit."""
    wanted, others = BurstKey(NOVA, 1), [BurstKey(ORION, 1), BurstKey(NOVA, 2), BurstKey(NOVA, 11)]
    backend.bursts.write([burst(key.subject, key.seq, opened_at=opened_at(wanted)) for key in (wanted, *others)], [])
    backend.ledger.plan([plan(key, opened_at=opened_at(wanted), shards=14) for key in (wanted, *others)])
    bits = from_offsets([5, *range(RANGE_MEMBERS, RANGE_MEMBERS + 1_000), SHARD_MEMBERS - 1])
    for key in (wanted, *others):
        moment = opened_at(wanted)
        cuts = [cut(bits, burst=key, opened_at=moment, tier=Tier.P1, shard=shard) for shard in (0, 8, 13)]
        backend.inbox.write([*cuts, cut(bits, burst=key, opened_at=moment, tier=Tier.P0, shard=8)])
    found = told(backend.archive.rows(wanted))
    assert len(found) == 4 * 3
    assert found == [one for one in told(backend.archive.rows()) if one[1] == str(wanted)]


def test_rows_of_a_burst_that_moved_while_it_was_written_are_all_told(backend: Backend) -> None:
    """Two coordinators publish it: one has planned it when the other gives it a later moment, past the window's end."""
    key, other = BurstKey(NOVA, 1), BurstKey(NOVA, 2)
    moved = START + INBOX_WINDOW + timedelta(seconds=2)
    backend.ledger.plan([plan(key)])
    backend.bursts.write([burst(NOVA, 1, opened_at=moved), burst(NOVA, 2, opened_at=moved)], [])
    bits = from_offsets([5, RANGE_MEMBERS])
    for of, moment, tier in ((key, START, Tier.P0), (key, moved, Tier.P1), (other, moved, Tier.P1)):
        backend.inbox.write([cut(bits, burst=of, opened_at=moment, tier=tier, shard=1)])
    found = told(backend.archive.rows(key))
    assert [(at, tier) for at, _, tier, _ in found] == [
        (SHARD_RANGES, "p0"),
        (SHARD_RANGES, "p1"),
        (SHARD_RANGES + 1, "p0"),
        (SHARD_RANGES + 1, "p1"),
    ]


def test_many_rows_of_one_range_fill_several_pages_without_loss_or_repeat(backend: Backend) -> None:
    """Three of each moment, each in two tiers: a page may end between them."""
    rows: list[InboxRows] = []
    for n in range(350):
        key, moment = BurstKey(NOVA, n), START + timedelta(milliseconds=n // 3)
        rows += [cut(from_offsets([3]), burst=key, opened_at=moment, tier=tier, shard=0) for tier in (Tier.P0, Tier.P2)]
    backend.inbox.write(rows)
    write(backend, BurstKey(ORION, 0), [2, 4, SHARD_MEMBERS - 1])
    found = told(backend.archive.rows())
    assert len(found) == len(set(found)) == 702


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(data=st.data())
def test_every_store_tells_the_same_rows_as_the_memory(backend: Backend, data: st.DataObject) -> None:
    """Each example has bursts of its own: a burst's rows never change."""
    memory, subject = in_memory(), Subject(Kind.MENTION, UserId(f"nova{next(EXAMPLES)}"))
    places = st.sets(st.integers(0, 3 * RANGE_MEMBERS), min_size=1, max_size=200)
    written = data.draw(st.dictionaries(st.tuples(st.integers(0, 9), st.integers(0, 20)), places, max_size=5))
    before = set(told(backend.archive.rows()))
    for (seq, shard), members in written.items():
        write(backend, BurstKey(subject, seq), members, shard=shard)
        write(memory, BurstKey(subject, seq), members, shard=shard)
    assert set(told(backend.archive.rows())) == before | set(told(memory.archive.rows()))

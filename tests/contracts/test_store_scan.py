"""A store scan returns everything that the store holds, whatever the page size."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import SHARD_MEMBERS, from_offsets
from notifier.domain.audience.inbox_rows import (
    INBOX_WINDOW,
    MIN_BITMAP_MEMBERS,
    RANGE_BYTES,
    RANGE_MEMBERS,
    SHARD_RANGES,
    InboxRow,
    InboxRows,
    cut_inbox_rows,
)
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.ledger import Fact, LedgerEntry
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.ports.ledger_claims_deferred_bursts_scan import StoredRow
from tests.contracts.memory_and_sqlite_backends import Backend, in_memory
from tests.support.contract_examples import NOVA, ORION, audience_snapshot, burst, plan, slice_of
from tests.support.fakes.clock_and_nonces import START

EXAMPLES = count(1)

RowTuple = tuple[int, str, str, bytes]
"""Range, burst, tier and members."""


def row_tuples(rows: Iterable[StoredRow]) -> list[RowTuple]:
    return sorted(
        (stored.member_range, str(stored.row.burst), str(stored.row.tier), stored.row.members) for stored in rows
    )


def opened_at(key: BurstKey) -> datetime:
    """Return a time that lies as many inbox windows after START as the burst's number."""
    return START + key.seq * INBOX_WINDOW


def write(backend: Backend, key: BurstKey, places: Iterable[int], *, shard: int = 0, tier: Tier = Tier.P1) -> None:
    backend.inbox.write(
        [cut_inbox_rows(from_offsets(places), burst=key, opened_at=opened_at(key), tier=tier, shard=shard)]
    )


def test_each_burst_is_returned_once(backend: Backend) -> None:
    bursts = [burst(subject, seq) for subject in (NOVA, ORION) for seq in range(1, 301)]
    backend.bursts.write(bursts, [])
    assert sorted(backend.store_scan.bursts(), key=lambda burst_: burst_.key) == bursts


def test_scanned_progress_equals_the_ledger(backend: Backend) -> None:
    keys = [BurstKey(NOVA, seq) for seq in range(1, 301)]
    backend.ledger.store_plans([plan(key) for key in keys])
    backend.ledger.record([LedgerEntry(slice=slice_of(keys[7]), fact=Fact.DONE, at=START, people=5)])
    backend.ledger.unlist(keys[:10])
    scanned = sorted(backend.store_scan.burst_progress(), key=lambda progress: progress.plan.burst)
    assert [progress.plan.burst for progress in scanned] == keys
    assert scanned[7] == backend.ledger.read(keys)[keys[7]]


def test_snapshots_of_burst_are_returned_by_shard(backend: Backend) -> None:
    key, other_key = BurstKey(NOVA, 1), BurstKey(NOVA, 2)
    backend.ledger.store_plans([plan(key, shards=18), plan(other_key, shards=18)])
    backend.audience_snapshots.insert(key, [audience_snapshot(shard) for shard in (9, 0, 17, 3)])
    backend.audience_snapshots.insert(other_key, [audience_snapshot(5)])
    snapshots = list(backend.store_scan.audience_snapshots(key))
    assert [snapshot.shard for snapshot in snapshots] == [0, 3, 9, 17]
    assert snapshots[0].reached_count(Tier.P2) == 89_000


def test_scan_of_empty_store_is_empty(backend: Backend) -> None:
    scan, key = backend.store_scan, BurstKey(NOVA, 1)
    results = [
        scan.bursts(),
        scan.burst_progress(),
        scan.audience_snapshots(key),
        scan.rows(),
        scan.rows(key),
    ]
    assert [list(result) for result in results] == [[], [], [], [], []]


def test_row_is_returned_as_written(backend: Backend) -> None:
    key = BurstKey(NOVA, 0)
    bitmap_places, list_places = range(MIN_BITMAP_MEMBERS), [RANGE_MEMBERS + 7, RANGE_MEMBERS + 258]
    write(backend, key, [*bitmap_places, *list_places], shard=2)
    bitmap, listed = sorted(backend.store_scan.rows(), key=lambda stored: stored.member_range)
    assert bitmap == StoredRow(
        member_range=2 * SHARD_RANGES,
        row=InboxRow(
            burst=key,
            opened_at=START,
            tier=Tier.P1,
            members=(b"\xff" * (MIN_BITMAP_MEMBERS // 8)).ljust(RANGE_BYTES, b"\x00"),
        ),
    )
    assert listed == StoredRow(
        member_range=2 * SHARD_RANGES + 1,
        row=InboxRow(burst=key, opened_at=START, tier=Tier.P1, members=b"\x07\x00\x02\x01"),
    )


def test_rows_of_one_burst_exclude_other_bursts(backend: Backend) -> None:
    """The others opened at the same time, and one number begins with the same digit."""
    key, other_keys = BurstKey(NOVA, 1), [BurstKey(ORION, 1), BurstKey(NOVA, 2), BurstKey(NOVA, 11)]
    backend.bursts.write(
        [burst(burst_key.subject, burst_key.seq, opened_at=opened_at(key)) for burst_key in (key, *other_keys)], []
    )
    backend.ledger.store_plans(
        [plan(burst_key, opened_at=opened_at(key), shards=14) for burst_key in (key, *other_keys)]
    )
    bits = from_offsets([5, *range(RANGE_MEMBERS, RANGE_MEMBERS + 1_000), SHARD_MEMBERS - 1])
    for burst_key in (key, *other_keys):
        moment = opened_at(key)
        cuts = [
            cut_inbox_rows(bits, burst=burst_key, opened_at=moment, tier=Tier.P1, shard=shard) for shard in (0, 8, 13)
        ]
        backend.inbox.write([*cuts, cut_inbox_rows(bits, burst=burst_key, opened_at=moment, tier=Tier.P0, shard=8)])
    rows = row_tuples(backend.store_scan.rows(key))
    assert len(rows) == 4 * 3
    assert rows == [row for row in row_tuples(backend.store_scan.rows()) if row[1] == str(key)]


def test_all_rows_of_moved_burst_are_returned(backend: Backend) -> None:
    """Two coordinators publish the burst: one plans it before the other moves it past the end of the window."""
    key, other_key = BurstKey(NOVA, 1), BurstKey(NOVA, 2)
    moved = START + INBOX_WINDOW + timedelta(seconds=2)
    backend.ledger.store_plans([plan(key)])
    backend.bursts.write([burst(NOVA, 1, opened_at=moved), burst(NOVA, 2, opened_at=moved)], [])
    bits = from_offsets([5, RANGE_MEMBERS])
    for burst_key, opened, tier in ((key, START, Tier.P0), (key, moved, Tier.P1), (other_key, moved, Tier.P1)):
        backend.inbox.write([cut_inbox_rows(bits, burst=burst_key, opened_at=opened, tier=tier, shard=1)])
    rows = row_tuples(backend.store_scan.rows(key))
    assert [(member_range, tier) for member_range, _, tier, _ in rows] == [
        (SHARD_RANGES, "p0"),
        (SHARD_RANGES, "p1"),
        (SHARD_RANGES + 1, "p0"),
        (SHARD_RANGES + 1, "p1"),
    ]


def test_rows_across_pages_are_returned_once(backend: Backend) -> None:
    """Three rows for each time, each in two tiers, so a page may end between them."""
    rows: list[InboxRows] = []
    for n in range(350):
        key, moment = BurstKey(NOVA, n), START + timedelta(milliseconds=n // 3)
        rows += [
            cut_inbox_rows(from_offsets([3]), burst=key, opened_at=moment, tier=tier, shard=0)
            for tier in (Tier.P0, Tier.P2)
        ]
    backend.inbox.write(rows)
    write(backend, BurstKey(ORION, 0), [2, 4, SHARD_MEMBERS - 1])
    stored = row_tuples(backend.store_scan.rows())
    assert len(stored) == len(set(stored)) == 702


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(data=st.data())
def test_every_scan_matches_in_memory_scan(backend: Backend, data: st.DataObject) -> None:
    """Each example uses bursts of its own, because the rows of a burst never change."""
    memory, subject = in_memory(), Subject(Kind.MENTION, UserId(f"nova{next(EXAMPLES)}"))
    places = st.sets(st.integers(0, 3 * RANGE_MEMBERS), min_size=1, max_size=200)
    places_by_slice = data.draw(st.dictionaries(st.tuples(st.integers(0, 9), st.integers(0, 20)), places, max_size=5))
    before = set(row_tuples(backend.store_scan.rows()))
    for (seq, shard), members in places_by_slice.items():
        write(backend, BurstKey(subject, seq), members, shard=shard)
        write(memory, BurstKey(subject, seq), members, shard=shard)
    assert set(row_tuples(backend.store_scan.rows())) == before | set(row_tuples(memory.store_scan.rows()))

"""The end-to-end check of the store fails for every difference from the expected rows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from notifier.devkit.check.check_store import StoreCheck
from notifier.devkit.check.expected_result import ExpectedResult
from notifier.devkit.check.mention_storm import SOURCE, Tweet
from notifier.devkit.fixture.world import World
from notifier.domain.audience.bitmap import SHARD_MEMBERS, from_flags
from notifier.domain.audience.inbox_rows import RANGE_BYTES, InboxRow, cut_inbox_rows
from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.audience.tiers_and_member_sets import TIERS
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.ids import BurstKey, Lane, UserId
from notifier.ports.bursts import MentionOutcome
from notifier.ports.ledger_claims_deferred_bursts_scan import StoredRow
from tests.support.fakes.bursts_and_sequence_heads import MemoryBursts

WORLD = World(universe=20_000, followers=15_000, celebrities=2, seed=1)
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
TWEET = Tweet(id="e1", author=UserId("u5"), mentioned=(UserId("nova"),), protected=False)


@dataclass
class FakeStoreScan:
    """A store scan with the bursts and rows that a test puts in."""

    stored_bursts: list[Burst]
    stored_rows: list[StoredRow] = field(default_factory=list)

    def bursts(self) -> Iterator[Burst]:
        return iter(self.stored_bursts)

    def rows(self, burst: BurstKey | None = None) -> Iterator[StoredRow]:
        return (row for row in self.stored_rows if row.row.burst == burst)

    def burst_progress(self) -> Iterator[BurstProgress]:
        return iter(())

    def audience_snapshots(self, burst: BurstKey) -> Iterator[AudienceSnapshot]:
        return iter(())


@dataclass
class FakeOutcomes(MemoryBursts):
    result: Sequence[MentionOutcome] = ()

    def outcomes(self, source: str | None, id: str) -> Sequence[MentionOutcome]:
        return self.result


def burst(name: str, lane: Lane = Lane.CELEBRITY) -> Burst:
    return Burst(
        key=BurstKey.parse(name),
        version=1,
        opened_at=NOW,
        accepted_at=NOW,
        lane=lane,
        verdict=Verdict.ALL,
        mentioners=(TWEET.author,),
        more_mentioners=False,
        count=1,
        first_of_day=True,
        restricted_to=None,
        tweet="t",
        text="",
    )


BURSTS = [burst("mention:nova#1"), burst("self:nova#1", Lane.STANDARD)]


def correct_store() -> tuple[FakeStoreScan, StoreCheck, ExpectedResult]:
    store_scan = FakeStoreScan(BURSTS)
    outcomes = FakeOutcomes()
    outcomes.result = [
        MentionOutcome(event=EventId(SOURCE, "e1"), account=UserId("nova"), burst=burst.key, refusal=None)
        for burst in BURSTS
    ]
    store_check = StoreCheck(store_scan=store_scan, bursts_port=outcomes, world=WORLD)
    truth = store_check.truth([TWEET])
    store_scan.stored_rows = [row for burst in BURSTS for row in rows(truth, burst)]
    return store_scan, store_check, truth


def rows(truth: ExpectedResult, burst: Burst) -> Iterator[StoredRow]:
    for shard in truth.shards(burst.key.subject):
        for tier in TIERS:
            bits = from_flags(truth.tiers(burst, shard)[tier])
            inbox_rows = cut_inbox_rows(bits, burst=burst.key, opened_at=NOW, tier=tier, shard=shard)
            for member_range, members in zip(inbox_rows.ranges, inbox_rows.members, strict=True):
                row = InboxRow(burst=burst.key, opened_at=NOW, tier=tier, members=members)
                yield StoredRow(member_range=member_range, row=row)


def rows_ok_and_duplicates(rows: Iterable[StoredRow]) -> tuple[bool, list[str]]:
    store_scan, store_check, truth = correct_store()
    store_scan.stored_rows = list(rows)
    return store_check.rows_equal_oracle(truth).ok, store_check.duplicates()


def test_correct_store_passes() -> None:
    store_scan, store_check, truth = correct_store()
    assert store_check.nothing_lost(truth, []).ok
    assert store_check.rows_equal_oracle(truth).ok
    assert store_check.duplicates() == []
    assert store_check.alerts.expected.keys() == {BURSTS[0].key}
    assert {len(row.row.members) == RANGE_BYTES for row in store_scan.stored_rows} == {True, False}


def test_missing_row_fails() -> None:
    for index in (0, len(correct_store()[0].stored_rows) // 2, -1):
        stored_rows = correct_store()[0].stored_rows
        del stored_rows[index]
        assert not rows_ok_and_duplicates(stored_rows)[0]


def test_unexpected_member_fails() -> None:
    stored_rows = correct_store()[0].stored_rows
    full = next(i for i, row in enumerate(stored_rows) if len(row.row.members) == RANGE_BYTES)
    stored_rows[full] = replace(stored_rows[full], row=replace(stored_rows[full].row, members=b"\xff" * RANGE_BYTES))
    assert not rows_ok_and_duplicates(stored_rows)[0]


def test_row_in_two_tiers_fails_as_duplicate() -> None:
    stored_rows = correct_store()[0].stored_rows
    row = next(row for row in stored_rows if len(row.row.members) < RANGE_BYTES)
    other_tier = next(tier for tier in TIERS if tier is not row.row.tier)
    twin = replace(row, row=replace(row.row, tier=other_tier, members=row.row.members[:2]))
    ok, twice = rows_ok_and_duplicates([*stored_rows, twin])
    assert not ok
    assert twice == [f"{row.row.burst}: 1 users have more than one row"]


def test_lost_mention_fails() -> None:
    _, store_check, _ = correct_store()
    outcomes = store_check.bursts_port
    assert isinstance(outcomes, FakeOutcomes)
    outcomes.result = outcomes.result[:1]
    assert not store_check.nothing_lost(store_check.truth([TWEET]), []).ok


def test_mention_counted_twice_fails() -> None:
    store_scan, store_check, _ = correct_store()
    store_scan.stored_bursts = [replace(BURSTS[0], count=2), BURSTS[1]]
    assert not store_check.nothing_lost(store_check.truth([TWEET]), []).ok


def test_refused_event_fails() -> None:
    _, store_check, truth = correct_store()
    assert not store_check.nothing_lost(truth, ["e2: 503"]).ok


def test_ledger_without_plans_fails() -> None:
    _, store_check, truth = correct_store()
    assert not store_check.totals_balance(truth).ok


def test_burst_in_wrong_lane_fails() -> None:
    _, store_check, truth = correct_store()
    assert store_check.lanes(truth, threshold=15_000, min_bursts=0).ok
    assert not store_check.lanes(truth, threshold=15_001, min_bursts=0).ok


def test_own_burst_of_celebrity_is_in_the_last_shard() -> None:
    _, _, truth = correct_store()
    assert truth.shards(BURSTS[1].key.subject) == [WORLD.celebrity_member(0) // SHARD_MEMBERS] == [1]


def test_needless_pull_only_burst_fails() -> None:
    _, store_check, truth = correct_store()
    pull_only = replace(truth, bursts={burst.key: replace(burst, pull_only=burst is BURSTS[0]) for burst in BURSTS})
    # The store scan has no plans, which already counts as two errors.
    assert (store_check.totals_balance(truth).value, store_check.totals_balance(pull_only).value) == (2, 3)

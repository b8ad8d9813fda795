"""The outside check finds what is wrong: every way in which a store can differ from the truth fails its check."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from notifier.devkit.check.check_store import Outside
from notifier.devkit.check.expected import Truth
from notifier.devkit.check.traffic import SOURCE, Tweet
from notifier.devkit.fixture.world import World
from notifier.domain.audience.bitmap import SHARD_MEMBERS, from_flags
from notifier.domain.audience.inbox_rows import RANGE_BYTES, InboxRow, cut
from notifier.domain.audience.snapshot import Seal
from notifier.domain.audience.tiers import TIERS
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.mention import EventId
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.ids import BurstKey, Lane, UserId
from notifier.ports.bursts import Outcome
from notifier.ports.ledger import StoredRow
from tests.support.fakes.bursts import MemoryBursts

WORLD = World(universe=20_000, followers=15_000, celebrities=2, seed=1)
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
TWEET = Tweet(id="e1", author=UserId("u5"), mentioned=(UserId("nova"),), protected=False)


@dataclass
class Stored:
    """An archive of what a test puts in."""

    kept: list[Burst]
    stored: list[StoredRow] = field(default_factory=list)

    def bursts(self) -> Iterator[Burst]:
        return iter(self.kept)

    def rows(self, burst: BurstKey | None = None) -> Iterator[StoredRow]:
        return (row for row in self.stored if row.row.burst == burst)

    def accounts(self) -> Iterator[BurstProgress]:
        return iter(())

    def seals(self, burst: BurstKey) -> Iterator[Seal]:
        return iter(())


@dataclass
class Told(MemoryBursts):
    found: Sequence[Outcome] = ()

    def outcomes(self, source: str | None, id: str) -> Sequence[Outcome]:
        return self.found


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


def right() -> tuple[Stored, Outside, Truth]:
    archive = Stored(BURSTS)
    told = Told()
    told.found = [
        Outcome(event=EventId(SOURCE, "e1"), account=UserId("nova"), burst=one.key, refusal=None) for one in BURSTS
    ]
    outside = Outside(archive=archive, outcomes=told, world=WORLD)
    truth = outside.truth([TWEET])
    archive.stored = [row for one in BURSTS for row in rows(truth, one)]
    return archive, outside, truth


def rows(truth: Truth, one: Burst) -> Iterator[StoredRow]:
    for shard in truth.shards(one.key.subject):
        for tier in TIERS:
            bits = from_flags(truth.tiers(one, shard)[tier])
            made = cut(bits, burst=one.key, opened_at=NOW, tier=tier, shard=shard)
            for member_range, members in zip(made.ranges, made.members, strict=True):
                row = InboxRow(burst=one.key, opened_at=NOW, tier=tier, members=members)
                yield StoredRow(member_range=member_range, row=row)


def compared(rows: Iterable[StoredRow]) -> tuple[bool, list[str]]:
    archive, outside, truth = right()
    archive.stored = list(rows)
    return outside.rows_equal_oracle(truth).ok, outside.twice()


def test_a_right_store_passes() -> None:
    archive, outside, truth = right()
    assert outside.nothing_lost(truth, []).ok
    assert outside.rows_equal_oracle(truth).ok
    assert outside.twice() == []
    assert outside.alerts.expected.keys() == {BURSTS[0].key}
    assert {len(row.row.members) == RANGE_BYTES for row in archive.stored} == {True, False}


def test_a_missing_row_is_found() -> None:
    for place in (0, len(right()[0].stored) // 2, -1):
        stored = right()[0].stored
        del stored[place]
        assert not compared(stored)[0]


def test_a_person_too_many_is_found() -> None:
    stored = right()[0].stored
    full = next(i for i, row in enumerate(stored) if len(row.row.members) == RANGE_BYTES)
    stored[full] = replace(stored[full], row=replace(stored[full].row, members=b"\xff" * RANGE_BYTES))
    assert not compared(stored)[0]


def test_a_row_in_another_tier_is_found_and_one_in_two_tiers_is_shown_twice() -> None:
    stored = right()[0].stored
    one = next(row for row in stored if len(row.row.members) < RANGE_BYTES)
    other = next(tier for tier in TIERS if tier is not one.row.tier)
    twin = replace(one, row=replace(one.row, tier=other, members=one.row.members[:2]))
    ok, twice = compared([*stored, twin])
    assert not ok
    assert twice == [f"{one.row.burst}: 1 people have two rows"]


def test_a_lost_mention_is_found() -> None:
    _, outside, _ = right()
    told = outside.outcomes
    assert isinstance(told, Told)
    told.found = told.found[:1]
    assert not outside.nothing_lost(outside.truth([TWEET]), []).ok


def test_a_mention_counted_twice_is_found() -> None:
    archive, outside, _ = right()
    archive.kept = [replace(BURSTS[0], count=2), BURSTS[1]]
    assert not outside.nothing_lost(outside.truth([TWEET]), []).ok


def test_a_refused_event_is_found() -> None:
    _, outside, truth = right()
    assert not outside.nothing_lost(truth, ["e2: 503"]).ok


def test_books_without_a_plan_do_not_balance() -> None:
    _, outside, truth = right()
    assert not outside.books_balance(truth).ok


def test_a_burst_in_the_wrong_lane_is_found() -> None:
    _, outside, truth = right()
    assert outside.lanes(truth, threshold=15_000, at_least=0).ok
    assert not outside.lanes(truth, threshold=15_001, at_least=0).ok


def test_the_celebritys_own_item_lies_behind_the_people() -> None:
    _, _, truth = right()
    assert truth.shards(BURSTS[1].key.subject) == [WORLD.star_member(0) // SHARD_MEMBERS] == [1]


def test_a_burst_that_is_kept_from_its_followers_without_need_is_found() -> None:
    _, outside, truth = right()
    spared = replace(truth, bursts={one.key: replace(one, pull_only=one is BURSTS[0]) for one in BURSTS})
    # The archive has no plans, which is wrong twice already.
    assert (outside.books_balance(truth).value, outside.books_balance(spared).value) == (2, 3)

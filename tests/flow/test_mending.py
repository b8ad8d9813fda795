"""A bitmap that a worker can't read is made again from the rows, and its burst waits for it instead of dying of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from notifier.domain.audience.tiers import SetKind
from notifier.domain.delivery.ledger import ATTEMPTS, Fact
from notifier.domain.delivery.slice import Again
from notifier.domain.errors import LogUnavailable
from notifier.domain.ids import Subject, UserId
from notifier.ports.event_log import Record
from notifier.wiring.delivery import build_slice_worker
from tests.support.damaged_bitmaps import Damaged
from tests.support.in_memory_system import NOVA, Stage


def damaged(kind: SetKind, owner: Subject | None = NOVA) -> Stage:
    stage = Stage()
    stage.ports = replace(stage.ports, sets=Damaged(stage.ground.sets, kind, owner))
    return stage


def facts(stage: Stage) -> set[Fact]:
    return {
        standing.ended.fact
        for account in stage.ground.archive.accounts()
        for standing in account.standings.values()
        if standing.ended
    }


def reached(stage: Stage, *, protected: bool = False) -> set[int]:
    stage.mention("nova", protected=protected)
    return delivered(stage)


def delivered(stage: Stage, seconds: int = 1) -> set[int]:
    """Until no burst is open; what workers ask of the indexer is heard between two of their tries."""
    for _ in range(60):
        stage.dispatch()
        stage.work()
        stage.sequence()
        stage.pass_time(seconds=seconds)
        if not stage.ground.ledger.open():
            return stage.reached()
    raise AssertionError(stage.ground.ledger.open())


@pytest.mark.parametrize(
    ("kind", "owner"), [(SetKind.FOLLOWERS, NOVA), (SetKind.MUTED, NOVA), (SetKind.OVERALL_OFF, None)]
)
def test_a_burst_waits_for_a_bitmap_that_can_not_be_read_and_reaches_whom_it_should(
    kind: SetKind, owner: Subject | None
) -> None:
    stage = damaged(kind, owner)
    assert reached(stage) == reached(Stage()) != set()
    assert (facts(stage), list(stage.ground.dead_letters.list(9))) == ({Fact.DONE}, [])


def test_a_restricted_burst_waits_for_the_bitmap_of_its_authors_followers() -> None:
    whole, stage = Stage(), damaged(SetKind.FOLLOWERS, Subject(NOVA.kind, UserId("ada")))
    for each in (whole, stage):
        each.followed("kim", "ada", sequence=1)
    stage.ports.sets.standing = True  # type: ignore[attr-defined]  # it is a Damaged
    assert reached(stage, protected=True) == reached(whole, protected=True)
    assert facts(stage) == {Fact.DONE}


def test_an_indexer_that_is_away_is_not_asked_by_every_try() -> None:
    stage = damaged(SetKind.FOLLOWERS)
    stage.mention("nova")
    work = build_slice_worker(stage.system())
    asked: list[int] = []
    for _ in range(12):
        stage.dispatch()
        stage.work(by=work)
        asked.append(len(list(stage.ground.log.waiting("follows", "indexer", 999))))
        stage.pass_time(seconds=1)
    assert asked[0] > 0
    assert asked == [asked[0]] * 10 + [2 * asked[0]] * 2


def test_who_dies_while_asking_asks_again() -> None:
    stage = damaged(SetKind.FOLLOWERS)
    stage.mention("nova")
    stage.dispatch()
    cut = build_slice_worker(stage.system(log=Deaf(stage.ports.log)))
    assert Again in {type(outcome) for outcome in stage.work(by=cut)}
    assert (delivered(stage), facts(stage)) == (reached(Stage()), {Fact.DONE})


def test_a_slice_waits_for_its_claim_between_two_tries_and_dies_of_a_bitmap_that_no_rows_give_back() -> None:
    """Who was active is known by its bitmaps alone, which the roll-up makes each minute."""
    stage = damaged(SetKind.ACTIVE_24H, None)
    stage.mention("nova")
    for _ in range(2 * ATTEMPTS):
        stage.dispatch()
        stage.work()
    assert facts(stage) == set()
    delivered(stage, seconds=61)
    assert Fact.DEAD in facts(stage)


@dataclass(frozen=True)
class Deaf:
    port: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def append(self, records: Sequence[Record]) -> None:
        raise LogUnavailable

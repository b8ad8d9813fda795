"""Phones have slices only where a seal says that somebody is to be alerted."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers import SetKind, Tier
from notifier.domain.delivery.ledger import BurstProgress, Fact
from notifier.domain.delivery.plan import SetHead, plan
from notifier.domain.delivery.slice import PHONES, TERMS, Pool, Step
from notifier.domain.ids import Subject
from notifier.flow.delivery.row_writer import Delivery
from notifier.flow.delivery.slice_worker import SliceLease
from notifier.flow.indexing.bitmaps import MendedSets
from notifier.metrics import Metrics
from notifier.ports.audience import ShardBlob
from tests.support.contract_examples import NOVA, burst
from tests.support.fakes.audience import MemoryMemberSets
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.directory import MemoryDirectory
from tests.support.fakes.event_log import MemoryLog
from tests.support.fakes.inbox import MemoryInbox, MemorySeals
from tests.support.fakes.ledger import MemoryClaims, MemoryLedger

VIP, ACTIVE, LATE, DORMANT = 1, 2, 3, 4
SETS: Mapping[SetKind, Iterable[int]] = {
    SetKind.FOLLOWERS: (VIP, ACTIVE, LATE, DORMANT),
    SetKind.VIP: (VIP,),
    SetKind.ACTIVE_24H: (ACTIVE,),
    SetKind.ACTIVE_7D: (VIP, ACTIVE),
    SetKind.ACTIVE_30D: (VIP, ACTIVE, LATE),
}


class Room:
    """One shard, in which four follow nova."""

    def __init__(self, **phones: Iterable[int]) -> None:
        self.clock, self.claims = ManualClock(), MemoryClaims()
        self.ledger, self.seals = MemoryLedger(self.claims), MemorySeals(self.clock)
        sets = MemoryMemberSets(MemoryDirectory())
        for kind, places in {**SETS, **{SetKind(name): some for name, some in phones.items()}}.items():
            sets.put([ShardBlob(kind=kind, owner=_owner(kind), shard=0, bits=from_offsets(places))])
        self.burst = replace(burst(), opened_at=self.clock.now())
        self.ledger.plan([plan(self.burst, SetHead(total=4, counts=(4,)))])
        self.delivery = Delivery(
            sets=MendedSets(port=sets, log=MemoryLog(self.clock), clock=self.clock),
            seals=self.seals,
            inbox=MemoryInbox(self.seals),
            clock=self.clock,
            metrics=Metrics(),
        )

    def deliver(self) -> None:
        for piece in [piece for piece in self._account().standings if piece.step is Step.ROWS]:
            now = self.clock.now()
            claim = self.claims.claim(piece, "test", now, now + piece.terms.claim)
            assert claim is not None
            self.ledger.record([self.delivery(self.burst, piece, SliceLease(claim, self.claims, self.clock))])

    def left(self) -> set[tuple[Step, Tier]]:
        """Slices of phones that the account has."""
        return {(piece.step, piece.tier) for piece in self._account().standings if piece.step is not Step.ROWS}

    def phones(self) -> Mapping[Tier, int | None]:
        ended = [one.ended for one in self._account().standings.values() if one.ended]
        return {entry.slice.tier: entry.phones for entry in ended}

    def _account(self) -> BurstProgress:
        return self.ledger.read([self.burst.key])[self.burst.key]


def _owner(kind: SetKind) -> Subject | None:
    return NOVA if kind is SetKind.FOLLOWERS else None


def of(*tiers: Tier) -> set[tuple[Step, Tier]]:
    return {(step, tier) for step in PHONES for tier in tiers}


def test_a_burst_whose_followers_have_no_device_leaves_no_phones_to_ring() -> None:
    room = Room(asked=(LATE, DORMANT))
    assert room.left() == of(*Tier)
    room.deliver()
    assert (room.left(), room.phones()) == (set(), {Tier.P0: 0, Tier.P1: 0, Tier.P2: 0})


@pytest.mark.parametrize(
    ("phones", "left"),
    [
        ({"push": [VIP]}, of(Tier.P0)),
        ({"push": [ACTIVE]}, of(Tier.P1)),
        ({"push": [LATE, DORMANT]}, set()),
        ({"push": [LATE], "asked": [LATE]}, of(Tier.P2, Tier.DORMANT)),
        ({"push": [DORMANT], "asked": [DORMANT]}, of(Tier.P2, Tier.DORMANT)),
        ({"push": [VIP, DORMANT], "asked": [DORMANT], "no_push": [VIP, DORMANT]}, set()),
    ],
)
def test_a_single_device_of_who_is_to_be_alerted_leaves_the_slices_of_its_rows(
    phones: Mapping[str, Iterable[int]], left: set[tuple[Step, Tier]]
) -> None:
    room = Room(**phones)
    room.deliver()
    assert room.left() == left


def test_phones_that_follow_rows_which_were_left_to_the_pull_path_are_counted_too() -> None:
    room = Room(push=[VIP])
    room.clock.advance(TERMS[Pool.P2].worth + timedelta(seconds=1))
    room.deliver()
    account = room.ledger.read([room.burst.key])[room.burst.key]
    assert {one.ended.fact for one in account.standings.values() if one.ended} == {Fact.PULLED}
    assert (room.left(), room.phones()) == (of(Tier.P0), {Tier.P0: 1, Tier.P1: 0, Tier.P2: 0})

"""Push slices exist only for tiers whose audience snapshots contain users to alert."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers_and_member_sets import SetKind, Tier
from notifier.domain.delivery.ledger import BurstProgress, Fact
from notifier.domain.delivery.plan import FollowerCounts, make_plan
from notifier.domain.delivery.slice_and_pool import POOL_TIMINGS, PUSH_STEPS, Pool, Step
from notifier.domain.ids import Subject
from notifier.flow.delivery.slice_worker import SliceLease
from notifier.flow.delivery.snapshot_and_row_writer import RowWriter
from notifier.flow.indexing.bitmap_updates_and_repair import SelfRepairingSets
from notifier.metrics import Metrics
from notifier.ports.audience import ShardBitmap
from tests.support.contract_examples import NOVA, burst
from tests.support.fakes.activity_member_sets_and_follows import MemoryMemberSets
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.event_log import MemoryEventLog
from tests.support.fakes.inbox_rows_and_audience_snapshots import MemoryAudienceSnapshots, MemoryInboxStore
from tests.support.fakes.ledger_claims_deferred_bursts import MemoryClaims, MemoryLedger
from tests.support.fakes.user_directory_and_account_flags import MemoryDirectory

VIP, DAILY, MONTHLY, DORMANT = 1, 2, 3, 4
SETS: Mapping[SetKind, Iterable[int]] = {
    SetKind.FOLLOWERS: (VIP, DAILY, MONTHLY, DORMANT),
    SetKind.VIP: (VIP,),
    SetKind.ACTIVE_24H: (DAILY,),
    SetKind.ACTIVE_7D: (VIP, DAILY),
    SetKind.ACTIVE_30D: (VIP, DAILY, MONTHLY),
}


class OneShard:
    """One shard with four followers of nova."""

    def __init__(self, **devices: Iterable[int]) -> None:
        self.clock, self.claims = ManualClock(), MemoryClaims()
        self.ledger, self.audience_snapshots = MemoryLedger(self.claims), MemoryAudienceSnapshots(self.clock)
        sets = MemoryMemberSets(MemoryDirectory())
        for kind, places in {**SETS, **{SetKind(name): members_ for name, members_ in devices.items()}}.items():
            sets.put([ShardBitmap(kind=kind, owner=_owner(kind), shard=0, bits=from_offsets(places))])
        self.burst = replace(burst(), opened_at=self.clock.now())
        self.ledger.store_plans([make_plan(self.burst, FollowerCounts(total=4, by_shard=(4,)))])
        self.delivery = RowWriter(
            sets=SelfRepairingSets(sets=sets, log=MemoryEventLog(self.clock), clock=self.clock),
            audience_snapshots=self.audience_snapshots,
            inbox=MemoryInboxStore(self.audience_snapshots),
            clock=self.clock,
            metrics=Metrics(),
        )

    def deliver(self) -> None:
        for slice_ in [slice_ for slice_ in self._progress().slice_states if slice_.step is Step.ROWS]:
            now = self.clock.now()
            claim = self.claims.claim(slice_, "test", now, now + slice_.pool_timing.lease)
            assert claim is not None
            self.ledger.record([self.delivery(self.burst, slice_, SliceLease(claim, self.claims, self.clock))])

    def push_slices(self) -> set[tuple[Step, Tier]]:
        """Return the remaining push slices."""
        return {(slice_.step, slice_.tier) for slice_ in self._progress().slice_states if slice_.step is not Step.ROWS}

    def alert_counts(self) -> Mapping[Tier, int | None]:
        ended = [status.final_entry for status in self._progress().slice_states.values() if status.final_entry]
        return {entry.slice.tier: entry.alert_count for entry in ended}

    def _progress(self) -> BurstProgress:
        return self.ledger.read([self.burst.key])[self.burst.key]


def _owner(kind: SetKind) -> Subject | None:
    return NOVA if kind is SetKind.FOLLOWERS else None


def push_slices_of(*tiers: Tier) -> set[tuple[Step, Tier]]:
    return {(step, tier) for step in PUSH_STEPS for tier in tiers}


def test_burst_without_devices_has_no_push_slices() -> None:
    shard = OneShard(asked=(MONTHLY, DORMANT))
    assert shard.push_slices() == push_slices_of(*Tier)
    shard.deliver()
    assert (shard.push_slices(), shard.alert_counts()) == (set(), {Tier.P0: 0, Tier.P1: 0, Tier.P2: 0})


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ({"push": [VIP]}, push_slices_of(Tier.P0)),
        ({"push": [DAILY]}, push_slices_of(Tier.P1)),
        ({"push": [MONTHLY, DORMANT]}, set()),
        ({"push": [MONTHLY], "asked": [MONTHLY]}, push_slices_of(Tier.P2, Tier.DORMANT)),
        ({"push": [DORMANT], "asked": [DORMANT]}, push_slices_of(Tier.P2, Tier.DORMANT)),
        ({"push": [VIP, DORMANT], "asked": [DORMANT], "no_push": [VIP, DORMANT]}, set()),
    ],
)
def test_one_device_keeps_the_push_slices_of_its_tier(
    devices: Mapping[str, Iterable[int]], expected: set[tuple[Step, Tier]]
) -> None:
    shard = OneShard(**devices)
    shard.deliver()
    assert shard.push_slices() == expected


def test_devices_of_pulled_slices_are_counted() -> None:
    shard = OneShard(push=[VIP])
    shard.clock.advance(POOL_TIMINGS[Pool.P2].expires_after + timedelta(seconds=1))
    shard.deliver()
    progress = shard.ledger.read([shard.burst.key])[shard.burst.key]
    assert {status.final_entry.fact for status in progress.slice_states.values() if status.final_entry} == {Fact.PULLED}
    assert (shard.push_slices(), shard.alert_counts()) == (
        push_slices_of(Tier.P0),
        {Tier.P0: 1, Tier.P1: 0, Tier.P2: 0},
    )

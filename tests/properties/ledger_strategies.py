"""Random plans and random ledger contents that a store could hold for them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hypothesis import strategies as st

from notifier.domain.audience.snapshot import SnapshotCounts
from notifier.domain.audience.tiers_and_member_sets import TIERS
from notifier.domain.delivery.ledger import BurstProgress, Claim, Fact, LedgerEntry, burst_progress
from notifier.domain.delivery.plan import FollowerCounts, Plan, make_plan
from notifier.domain.delivery.slice_and_pool import Slice
from tests.support.domain_examples import NOON, burst, claim, entry, tally

THROTTLES = ("t1", "t2", "t3")
SECONDS = st.integers(0, 9_000).map(lambda seconds: timedelta(seconds=seconds))


@dataclass(frozen=True, kw_only=True)
class BurstRecords:
    """Plan, ledger entries, claims and snapshot counts of one burst."""

    plan: Plan
    entries: Sequence[LedgerEntry]
    claims: Sequence[Claim]
    tallies: Sequence[SnapshotCounts]

    @property
    def progress(self) -> BurstProgress:
        return burst_progress(self.plan, self.entries, self.claims)


@st.composite
def plans(draw: st.DrawFn, *, seq: int = 1, opened_at: datetime = NOON, max_shards: int = 5) -> Plan:
    counts = draw(st.lists(st.sampled_from([0, 10, 100_000]), min_size=1, max_size=max_shards))
    plan_ = make_plan(burst(seq=seq, opened_at=opened_at), FollowerCounts(total=sum(counts), by_shard=counts))
    widths = {tier: draw(st.integers(1, 3)) for tier in TIERS}
    return replace(plan_, widths=widths)


@st.composite
def burst_records(draw: st.DrawFn, *, seq: int = 1, opened_at: datetime = NOON) -> BurstRecords:
    """Draw the records of a burst. Shards of finished slices have a snapshot, and some others too."""
    plan_ = draw(plans(seq=seq, opened_at=opened_at))
    shards = [shard for first, last in plan_.shard_spans for shard in range(first, last + 1)]
    tallies = {shard: draw(snapshot_counts(shard)) for shard in shards if draw(st.booleans())}
    entries, claims = list[LedgerEntry](), list[Claim]()
    for slice_ in plan_.slices():
        entries += draw(slice_entries(slice_, tallies))
        if draw(st.integers(0, 3)) == 0:
            at = opened_at + draw(SECONDS)
            claims.append(claim(slice_, at=at, until=at + draw(SECONDS)))
    return BurstRecords(plan=plan_, entries=entries, claims=claims, tallies=list(tallies.values()))


def snapshot_counts(shard: int) -> st.SearchStrategy[SnapshotCounts]:
    n = st.integers(0, 1_000)
    return st.builds(tally, st.just(shard), p0=n, p1=n, p2=n, suppressed=n)


FINAL_FACTS = (Fact.PULLED, Fact.DEAD, Fact.DONE)


@st.composite
def slice_entries(draw: st.DrawFn, slice_: Slice, tallies: dict[int, SnapshotCounts]) -> list[LedgerEntry]:
    """Draw entries of a slice. Cells are write-once: no two entries have the same fact and number."""
    cells = draw(st.sets(st.sampled_from([*Fact]), max_size=3))
    if not all(shard in tallies for shard in slice_.shards):
        cells -= {Fact.DONE, Fact.PULLED}  # a slice only succeeds once all of its shards have snapshots
    entries = []
    for fact in sorted(cells):
        for n in range(draw(st.integers(1, 3))) if fact not in FINAL_FACTS else (0,):
            people = _reached_people(slice_, tallies) if fact in (Fact.DONE, Fact.PULLED) else 0
            note = THROTTLES[n] if fact is Fact.PARKED else ""
            entries.append(entry(slice_, fact, n=n, at=NOON + draw(SECONDS), people=people, note=note))
    return entries


def _reached_people(slice_: Slice, tallies: dict[int, SnapshotCounts]) -> int:
    return sum(tallies[shard].reached.get(slice_.tier, 0) for shard in slice_.shards)

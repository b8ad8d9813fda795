"""Random facts about random plans, such as a store could hold."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hypothesis import strategies as st

from notifier.domain.audience.snapshot import SnapshotCounts
from notifier.domain.audience.tiers import TIERS
from notifier.domain.delivery.ledger import BurstProgress, Claim, Fact, LedgerEntry, account
from notifier.domain.delivery.plan import Plan, SetHead, plan
from notifier.domain.delivery.slice import Slice
from tests.support.examples import NOON, burst, claim, entry, tally

THROTTLES = ("t1", "t2", "t3")
SECONDS = st.integers(0, 9_000).map(lambda seconds: timedelta(seconds=seconds))


@dataclass(frozen=True, kw_only=True)
class Files:
    """What a store holds of one burst, and the seals' numbers."""

    plan: Plan
    entries: Sequence[LedgerEntry]
    claims: Sequence[Claim]
    tallies: Sequence[SnapshotCounts]

    @property
    def account(self) -> BurstProgress:
        return account(self.plan, self.entries, self.claims)


@st.composite
def plans(draw: st.DrawFn, *, seq: int = 1, opened_at: datetime = NOON, most_shards: int = 5) -> Plan:
    counts = draw(st.lists(st.sampled_from([0, 10, 100_000]), min_size=1, max_size=most_shards))
    found = plan(burst(seq=seq, opened_at=opened_at), SetHead(total=sum(counts), counts=counts))
    widths = {tier: draw(st.integers(1, 3)) for tier in TIERS}
    return replace(found, widths=widths)


@st.composite
def files(draw: st.DrawFn, *, seq: int = 1, opened_at: datetime = NOON) -> Files:
    """Sealed are the shards of what has ended, and some others."""
    found = draw(plans(seq=seq, opened_at=opened_at))
    shards = [shard for first, last in found.ranges for shard in range(first, last + 1)]
    tallies = {shard: draw(tallies_of(shard)) for shard in shards if draw(st.booleans())}
    entries, claims = list[LedgerEntry](), list[Claim]()
    for piece in found.slices():
        entries += draw(facts(piece, tallies))
        if draw(st.integers(0, 3)) == 0:
            at = opened_at + draw(SECONDS)
            claims.append(claim(piece, at=at, until=at + draw(SECONDS)))
    return Files(plan=found, entries=entries, claims=claims, tallies=list(tallies.values()))


def tallies_of(shard: int) -> st.SearchStrategy[SnapshotCounts]:
    n = st.integers(0, 1_000)
    return st.builds(tally, st.just(shard), p0=n, p1=n, p2=n, suppressed=n)


ENDS = (Fact.PULLED, Fact.DEAD, Fact.DONE)


@st.composite
def facts(draw: st.DrawFn, piece: Slice, tallies: dict[int, SnapshotCounts]) -> list[LedgerEntry]:
    """Write-once cells: no two of a slice have the same fact and number."""
    cells = draw(st.sets(st.sampled_from([*Fact]), max_size=3))
    if not all(shard in tallies for shard in piece.shards):
        cells -= {Fact.DONE, Fact.PULLED}  # nothing ends well before all of it is sealed
    found = []
    for fact in sorted(cells):
        for n in range(draw(st.integers(1, 3))) if fact not in ENDS else (0,):
            people = _people(piece, tallies) if fact in (Fact.DONE, Fact.PULLED) else 0
            note = THROTTLES[n] if fact is Fact.PARKED else ""
            found.append(entry(piece, fact, n=n, at=NOON + draw(SECONDS), people=people, note=note))
    return found


def _people(piece: Slice, tallies: dict[int, SnapshotCounts]) -> int:
    return sum(tallies[shard].reached.get(piece.tier, 0) for shard in piece.shards)

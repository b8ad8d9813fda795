"""The books of a burst: everybody who was expected is delivered, suppressed, parked, pulled, dead or in flight."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from notifier.domain.audience.snapshot import KEPT_FOR, Tally
from notifier.domain.delivery.ledger import Account, Fact, State
from notifier.domain.delivery.slice import Slice, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """In people; over the sealed shards."""

    expected: int
    delivered: int
    suppressed: int
    parked: int
    pulled: int
    dead: int
    in_flight: int
    expired: bool = False
    """The seals, of which everything is reckoned, are gone or going: there is nothing to check against any more."""

    @property
    def balanced(self) -> bool:
        parts = self.delivered + self.suppressed + self.parked + self.pulled + self.dead + self.in_flight
        return self.expected == parts


def books(account: Account, tallies: Iterable[Tally], *, throttles: Collection[str], now: datetime) -> Books:
    """What isn't ended is in flight, or parked; an ended slice counts the people that its own entry names.

    A dead one names nobody: whoever failed at it can't say for whom, so the seals do.
    """
    by_shard = {tally.shard: tally for tally in tallies}
    ended = {State.DONE: 0, State.PULLED: 0, State.DEAD: 0}
    waiting = {State.PARKED: 0, State.IN_FLIGHT: 0}
    for standing in account.standings.values():
        piece = standing.slice
        if piece.step is not Step.ROWS:
            continue
        people = _people(by_shard, piece)
        if standing.ended:
            dead = standing.ended.fact is Fact.DEAD
            ended[State(str(standing.ended.fact))] += people if dead else standing.ended.people
            continue
        parked = standing.state(now, throttles=throttles) is State.PARKED
        waiting[State.PARKED if parked else State.IN_FLIGHT] += people
    return Books(
        expected=sum(tally.expected for tally in by_shard.values()),
        delivered=ended[State.DONE],
        suppressed=sum(tally.suppressed for tally in by_shard.values()),
        parked=waiting[State.PARKED],
        pulled=ended[State.PULLED],
        dead=ended[State.DEAD],
        in_flight=waiting[State.IN_FLIGHT],
        expired=now >= account.plan.opened_at + KEPT_FOR,
    )


def _people(tallies: dict[int, Tally], piece: Slice) -> int:
    return sum(tallies[shard].reached[piece.tier] for shard in piece.shards if shard in tallies)

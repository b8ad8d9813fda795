"""The fate of an event: what became of every account it names, and how far each burst's fan-out is."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from notifier import topics
from notifier.codec import pack, unpack
from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.held_mention import HeldMention
from notifier.domain.bursts.mention import Event, EventId, Mention
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.delivery.ledger import BurstProgress, SliceState, State
from notifier.domain.delivery.slice import Step
from notifier.domain.errors import CacheUnavailable, NotFound, Poison, Unavailable
from notifier.domain.ids import BurstKey, UserId
from notifier.ports.bursts import Bursts, Outcome
from notifier.ports.cache import Recent
from notifier.ports.coordination import Clock, Throttles
from notifier.ports.event_log import EventLog, Record
from notifier.ports.ledger import Ledger
from notifier.ports.retractions import Holds

PULLED_ALONE = "Served by pull: the budget of fan-outs was spent."
TAKEN_BACK = "Taken back: nobody sees it any more."
LEFT_TO_FOLLOWERS = "Its author is protected now: it is left to those who follow the author."
LOOKED_THROUGH = 20_000
"""Records of a stream: 40 s of the peak's 500 a second."""


class EventStatus(StrEnum):
    ACCEPTED = "accepted"
    """Durable, and not sequenced yet."""
    SEQUENCED = "sequenced"
    """At least one account is told about; the others follow as the coordinator comes to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierFate:
    """How far the rows of a tier are."""

    tier: Tier
    state: State
    slices: int
    ended: int
    people: int
    """Counted by the slices that ended."""
    eta_seconds: float | None
    """None while nothing is known to reckon with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstFate:
    burst: Burst
    tiers: Sequence[TierFate]
    """Empty until the burst has its plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountFate:
    source: str
    account: UserId
    refusal: MentionRefusal | None
    bursts: Sequence[BurstFate]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReport:
    id: str
    status: EventStatus
    accounts: Sequence[AccountFate]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fates:
    bursts: Bursts
    holds: Holds
    ledger: Ledger
    throttles: Throttles
    recent: Recent
    log: EventLog
    clock: Clock
    turns: AbstractContextManager[object] | None = None
    """Held by whoever looks through the log; raises Unavailable where somebody else has it for too long."""

    def look_up(self, source: str | None, id: str) -> EventReport:
        """Of the event, or of every event with this id when no source is named.

        An event that was accepted is never unknown: the cache answers fast, and the log when the cache is away or was
        emptied. Raises NotFound for an event that was never accepted, and Unavailable, because a guess could be
        wrong, when more waits in the log than is looked through, or somebody else has looked through it for a while.
        """
        # The store first: an event sequenced between the two looks is then told as accepted, never as unknown.
        accounts = self._accounts(source, id)
        if not accounts:
            if self._remembered(source, id) or self._waits(source, id):
                return EventReport(id=id, status=EventStatus.ACCEPTED, accounts=())
            # And last: one that was ahead of every look at the log was sequenced meanwhile.
            accounts = self._accounts(source, id)
        if not accounts:
            raise NotFound(f"The event is {id}.")
        told = any(account.refusal or account.bursts for account in accounts)
        return EventReport(id=id, status=EventStatus.SEQUENCED if told else EventStatus.ACCEPTED, accounts=accounts)

    def _remembered(self, source: str | None, id: str) -> bool:
        try:
            return self.recent.recall(source, id)
        except CacheUnavailable:  # fails open: the log knows too, and is slower to tell
            return False

    def _waits(self, source: str | None, id: str) -> bool:
        with self.turns or nullcontext():
            return self._looked_through(source, id)

    def _looked_through(self, source: str | None, id: str) -> bool:
        """Along the way of an event, so that one that moves on meanwhile is met at the next look."""
        whole = True
        for stream in topics.MENTIONS_PASS:
            found = self._waits_in(stream, source, id)
            if found:
                return True
            whole = whole and found is not None
        if not whole:
            raise Unavailable(f"Too much waits to be sequenced to say what became of {id}.")
        return False

    def _waits_in(self, stream: str, source: str | None, id: str) -> bool | None:
        """None when it wasn't found, and not everything was looked at."""
        # All but a few records are passed over by their bytes: the id as they hold it, its length ahead of it.
        sought, looked_at = pack(id), 0
        for one in self.log.waiting(stream, topics.GROUPS[stream], LOOKED_THROUGH):
            looked_at += 1
            event = _event_of(one.record) if sought in one.record.value else None
            if event and event.id == id and source in (None, event.source):
                return True
        return None if looked_at == LOOKED_THROUGH else False

    def _accounts(self, source: str | None, id: str) -> Sequence[AccountFate]:
        """Outcomes before holds: what is let go between the two looks is then told as on its way, never as unknown."""
        outcomes, now = self.bursts.outcomes(source, id), self.clock.now()
        told = {(outcome.event, outcome.account) for outcome in outcomes}
        return [
            *self._routed(outcomes, now),
            *(
                one
                for hold in self.holds.of([id])
                for one in held(hold, now)
                if source in (None, hold.id.source) and (hold.id, one.account) not in told
            ),
        ]

    def _routed(self, outcomes: Sequence[Outcome], now: datetime) -> Sequence[AccountFate]:
        keys = {outcome.burst for outcome in outcomes if outcome.burst}
        bursts, ledger = self.bursts.read(keys), self.ledger.read(keys)
        holding = {throttle.id for throttle in self.throttles.since(now) if throttle.active(now)}
        fates = {
            key: BurstFate(burst=burst, tiers=_tiers(burst, ledger[key], holding, now) if key in ledger else ())
            for key, burst in bursts.items()
        }
        return by_account(outcomes, fates)


def note_of(burst: Burst) -> str | None:
    """Why fewer see it, or are told of it, than its audience."""
    if burst.retracted:
        return TAKEN_BACK
    if burst.narrowed:
        return LEFT_TO_FOLLOWERS
    return PULLED_ALONE if burst.pull_only else None


def _event_of(record: Record) -> EventId | None:
    try:
        return (
            unpack(Event, record.value).id if record.stream == topics.MENTIONS else unpack(Mention, record.value).event
        )
    except Poison:  # it is on its way to the dead letters
        return None


def by_account(outcomes: Sequence[Outcome], fates: Mapping[BurstKey, BurstFate]) -> Sequence[AccountFate]:
    """In the order in which the accounts come first."""
    named = dict.fromkeys((outcome.event, outcome.account) for outcome in outcomes)
    found = {name: [outcome for outcome in outcomes if (outcome.event, outcome.account) == name] for name in named}
    return [
        AccountFate(
            source=event.source,
            account=account,
            refusal=next((outcome.refusal for outcome in of if outcome.refusal), None),
            bursts=[fates[outcome.burst] for outcome in of if outcome.burst and outcome.burst in fates],
        )
        for (event, account), of in found.items()
    ]


def held(hold: HeldMention, now: datetime) -> Sequence[AccountFate]:
    """Of its accounts, while nothing else is known of them."""
    why = hold.refusal(now)
    return [AccountFate(source=hold.id.source, account=name, refusal=why, bursts=()) for name in hold.accounts]


def _tiers(burst: Burst, account: BurstProgress, throttles: Collection[str], now: datetime) -> Sequence[TierFate]:
    """Where nothing was planned because the purse was empty, all of it was left to the pull path."""
    found = tiers(account, throttles=throttles, now=now)
    return [replace(tier, state=State.PULLED) for tier in found] if burst.pull_only else found


def tiers(account: BurstProgress, *, throttles: Collection[str], now: datetime) -> Sequence[TierFate]:
    """`throttles` are those in force now."""
    return [_tier(account, tier, throttles=throttles, now=now) for tier in TIERS]


def _tier(account: BurstProgress, tier: Tier, *, throttles: Collection[str], now: datetime) -> TierFate:
    rows = [s for s in account.standings.values() if s.slice.tier is tier and s.slice.step is Step.ROWS]
    ended = [standing.ended for standing in rows if standing.ended]
    state = state_of(rows, throttles=throttles, now=now)
    return TierFate(
        tier=tier,
        state=state,
        slices=len(rows),
        ended=len(ended),
        people=sum(entry.people for entry in ended),
        eta_seconds=_eta(account, state, slices=len(rows), ended=len(ended), now=now),
    )


def state_of(standings: Sequence[SliceState], *, throttles: Collection[str], now: datetime) -> State:
    """Of an ended tier the worst of its slices; of any other the liveliest, where half done is in flight."""
    states = {standing.state(now, throttles=throttles) for standing in standings}
    waiting = states - {State.DONE, State.PULLED, State.DEAD}
    if not waiting:
        return next((state for state in (State.DEAD, State.PULLED) if state in states), State.DONE)
    if State.IN_FLIGHT in waiting:
        return State.IN_FLIGHT
    if State.PARKED in waiting:
        return State.PARKED
    return State.PLANNED if waiting == states else State.IN_FLIGHT


def _eta(account: BurstProgress, state: State, *, slices: int, ended: int, now: datetime) -> float | None:
    """By the mean rate since the burst opened, so that it grows while nothing moves."""
    if ended == slices:
        return 0.0
    if not ended or state is State.PARKED:
        return None
    return (now - account.plan.opened_at).total_seconds() / ended * (slices - ended)

"""Status of an event: the outcome for each named account, and each burst's fan-out progress."""

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
"""Records of a stream that are searched: 40 s at the peak of 500 a second."""


class EventStatus(StrEnum):
    ACCEPTED = "accepted"
    """Durable, and not sequenced yet."""
    SEQUENCED = "sequenced"
    """At least one account has an outcome; the others follow as the coordinator processes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierFate:
    """Progress of a tier's rows."""

    tier: Tier
    state: State
    slices: int
    ended: int
    people: int
    """Users counted by the slices that ended."""
    eta_seconds: float | None
    """None while there is no basis for an estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstFate:
    burst: Burst
    tiers: Sequence[TierFate]
    """Empty until the burst has a plan."""


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
    """Lock held while the log is searched. Raises Unavailable if another search holds it for too long."""

    def look_up(self, source: str | None, id: str) -> EventReport:
        """Return the status of the event, or of every event with this id if `source` is None.

        An accepted event is never unknown: the cache answers fast, and the log answers if the cache is down or was
        emptied. Raises NotFound for an event that was never accepted. Raises Unavailable if more records wait in the
        log than are searched, or if another search holds the lock for too long: a guess could be wrong.
        """
        # Read the store first: an event sequenced between the two reads is then reported as accepted, never as unknown.
        accounts = self._accounts(source, id)
        if not accounts:
            if self._remembered(source, id) or self._waits(source, id):
                return EventReport(id=id, status=EventStatus.ACCEPTED, accounts=())
            # Read it again last: an event that stayed ahead of the log search was sequenced meanwhile.
            accounts = self._accounts(source, id)
        if not accounts:
            raise NotFound(f"The event is {id}.")
        sequenced = any(account.refusal or account.bursts for account in accounts)
        return EventReport(
            id=id, status=EventStatus.SEQUENCED if sequenced else EventStatus.ACCEPTED, accounts=accounts
        )

    def _remembered(self, source: str | None, id: str) -> bool:
        try:
            return self.recent.recall(source, id)
        except CacheUnavailable:  # fails open: the log has the event too, and is slower
            return False

    def _waits(self, source: str | None, id: str) -> bool:
        with self.turns or nullcontext():
            return self._looked_through(source, id)

    def _looked_through(self, source: str | None, id: str) -> bool:
        """Search the streams in the order that an event passes them.

        So an event that moves on meanwhile is found in the next stream.
        """
        whole = True
        for stream in topics.MENTIONS_PASS:
            waits = self._waits_in(stream, source, id)
            if waits:
                return True
            whole = whole and waits is not None
        if not whole:
            raise Unavailable(f"Too much waits to be sequenced to say what became of {id}.")
        return False

    def _waits_in(self, stream: str, source: str | None, id: str) -> bool | None:
        """Return whether the event waits in the stream; None if it was not found and not all records were searched."""
        # Most records are skipped by their bytes: a match contains the packed id, which begins with its length.
        sought, looked_at = pack(id), 0
        for waiting in self.log.waiting(stream, topics.GROUPS[stream], LOOKED_THROUGH):
            looked_at += 1
            event = _event_of(waiting.record) if sought in waiting.record.value else None
            if event and event.id == id and source in (None, event.source):
                return True
        return None if looked_at == LOOKED_THROUGH else False

    def _accounts(self, source: str | None, id: str) -> Sequence[AccountFate]:
        """Read outcomes before holds.

        A mention that is released between the two reads is then reported as on its way, never as unknown.
        """
        outcomes, now = self.bursts.outcomes(source, id), self.clock.now()
        known = {(outcome.event, outcome.account) for outcome in outcomes}
        return [
            *self._routed(outcomes, now),
            *(
                fate
                for hold in self.holds.of([id])
                for fate in held(hold, now)
                if source in (None, hold.id.source) and (hold.id, fate.account) not in known
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
    """Return why fewer users than the audience see the burst or are notified of it; None if no reason applies."""
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
    except Poison:  # the record is on its way to the dead letters
        return None


def by_account(outcomes: Sequence[Outcome], fates: Mapping[BurstKey, BurstFate]) -> Sequence[AccountFate]:
    """Group the outcomes by event and account, in order of first appearance."""
    named = dict.fromkeys((outcome.event, outcome.account) for outcome in outcomes)
    grouped = {name: [outcome for outcome in outcomes if (outcome.event, outcome.account) == name] for name in named}
    return [
        AccountFate(
            source=event.source,
            account=account,
            refusal=next((outcome.refusal for outcome in account_outcomes if outcome.refusal), None),
            bursts=[fates[outcome.burst] for outcome in account_outcomes if outcome.burst and outcome.burst in fates],
        )
        for (event, account), account_outcomes in grouped.items()
    ]


def held(hold: HeldMention, now: datetime) -> Sequence[AccountFate]:
    """Return the status of a held mention's accounts. It applies while they have no other outcome."""
    why = hold.refusal(now)
    return [AccountFate(source=hold.id.source, account=name, refusal=why, bursts=()) for name in hold.accounts]


def _tiers(burst: Burst, account: BurstProgress, throttles: Collection[str], now: datetime) -> Sequence[TierFate]:
    """Return the progress of all tiers. A burst without fan-out budget is left entirely to the pull path."""
    all_tiers = tiers(account, throttles=throttles, now=now)
    return [replace(tier, state=State.PULLED) for tier in all_tiers] if burst.pull_only else all_tiers


def tiers(account: BurstProgress, *, throttles: Collection[str], now: datetime) -> Sequence[TierFate]:
    """Return the progress of all tiers. `throttles` are the ids of those in force now."""
    return [_tier(account, tier, throttles=throttles, now=now) for tier in TIERS]


def _tier(account: BurstProgress, tier: Tier, *, throttles: Collection[str], now: datetime) -> TierFate:
    rows = [s for s in account.standings.values() if s.slice.tier is tier and s.slice.step is Step.ROWS]
    ended = [slice_state.ended for slice_state in rows if slice_state.ended]
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
    """Return the state of a tier.

    If all slices ended, it is the worst of their states. Otherwise it is the most active state, and a half-done tier is
    in flight.
    """
    states = {slice_state.state(now, throttles=throttles) for slice_state in standings}
    waiting = states - {State.DONE, State.PULLED, State.DEAD}
    if not waiting:
        return next((state for state in (State.DEAD, State.PULLED) if state in states), State.DONE)
    if State.IN_FLIGHT in waiting:
        return State.IN_FLIGHT
    if State.PARKED in waiting:
        return State.PARKED
    return State.PLANNED if waiting == states else State.IN_FLIGHT


def _eta(account: BurstProgress, state: State, *, slices: int, ended: int, now: datetime) -> float | None:
    """Estimate by the mean rate since the burst opened, so that the estimate grows while nothing progresses."""
    if ended == slices:
        return 0.0
    if not ended or state is State.PARKED:
        return None
    return (now - account.plan.opened_at).total_seconds() / ended * (slices - ended)

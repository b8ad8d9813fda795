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
from notifier.ports.bursts import Bursts, MentionOutcome
from notifier.ports.cache import RecentEvents
from notifier.ports.coordination import Clock, Throttles
from notifier.ports.event_log import EventLog, Record
from notifier.ports.ledger import Ledger
from notifier.ports.retractions import HeldMentions

PULL_ONLY_NOTE = "Served by the pull path: the fan-out budget was spent."
RETRACTED_NOTE = "Retracted: no user sees it."
RESTRICTED_NOTE = "The author is protected now: only the author's followers see it."
MAX_SEARCHED = 20_000
"""Records of a stream that are searched: 40 s at the peak of 500 a second."""


class EventStatus(StrEnum):
    ACCEPTED = "accepted"
    """Durable, and not sequenced yet."""
    SEQUENCED = "sequenced"
    """At least one account has an outcome; the others follow as the coordinator processes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierStatus:
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
class BurstStatus:
    burst: Burst
    tiers: Sequence[TierStatus]
    """Empty until the burst has a plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountStatus:
    source: str
    account: UserId
    refusal: MentionRefusal | None
    bursts: Sequence[BurstStatus]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReport:
    id: str
    status: EventStatus
    accounts: Sequence[AccountStatus]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventStatusLookup:
    bursts: Bursts
    held_mentions: HeldMentions
    ledger: Ledger
    throttles: Throttles
    recent_events: RecentEvents
    log: EventLog
    clock: Clock
    search_lock: AbstractContextManager[object] | None = None
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
            if self._was_accepted_recently(source, id) or self._is_waiting(source, id):
                return EventReport(id=id, status=EventStatus.ACCEPTED, accounts=())
            # Read it again last: an event that stayed ahead of the log search was sequenced meanwhile.
            accounts = self._accounts(source, id)
        if not accounts:
            raise NotFound(f"Unknown event: {id}.")
        sequenced = any(account.refusal or account.bursts for account in accounts)
        return EventReport(
            id=id, status=EventStatus.SEQUENCED if sequenced else EventStatus.ACCEPTED, accounts=accounts
        )

    def _was_accepted_recently(self, source: str | None, id: str) -> bool:
        try:
            return self.recent_events.was_accepted(source, id)
        except CacheUnavailable:  # fails open: the log has the event too, and is slower
            return False

    def _is_waiting(self, source: str | None, id: str) -> bool:
        with self.search_lock or nullcontext():
            return self._search_streams(source, id)

    def _search_streams(self, source: str | None, id: str) -> bool:
        """Search the streams in the order that an event passes them.

        So an event that moves on meanwhile is found in the next stream.
        """
        whole = True
        for stream in topics.MENTION_STREAMS:
            waits = self._is_waiting_in(stream, source, id)
            if waits:
                return True
            whole = whole and waits is not None
        if not whole:
            raise Unavailable(f"Too many records are waiting to be sequenced; the status of {id} is unknown.")
        return False

    def _is_waiting_in(self, stream: str, source: str | None, id: str) -> bool | None:
        """Return whether the event waits in the stream; None if it was not found and not all records were searched."""
        # Most records are skipped by their bytes: a match contains the packed id, which begins with its length.
        sought, looked_at = pack(id), 0
        for waiting in self.log.read_uncommitted(stream, topics.GROUPS[stream], MAX_SEARCHED):
            looked_at += 1
            event = _event_of(waiting.record) if sought in waiting.record.value else None
            if event and event.id == id and source in (None, event.source):
                return True
        return None if looked_at == MAX_SEARCHED else False

    def _accounts(self, source: str | None, id: str) -> Sequence[AccountStatus]:
        """Read outcomes before holds.

        A mention that is released between the two reads is then reported as on its way, never as unknown.
        """
        outcomes, now = self.bursts.outcomes(source, id), self.clock.now()
        known = {(outcome.event, outcome.account) for outcome in outcomes}
        return [
            *self._routed(outcomes, now),
            *(
                status
                for held in self.held_mentions.by_event_id([id])
                for status in held_statuses(held, now)
                if source in (None, held.id.source) and (held.id, status.account) not in known
            ),
        ]

    def _routed(self, outcomes: Sequence[MentionOutcome], now: datetime) -> Sequence[AccountStatus]:
        keys = {outcome.burst for outcome in outcomes if outcome.burst}
        bursts, ledger = self.bursts.read(keys), self.ledger.read(keys)
        holding = {throttle.id for throttle in self.throttles.since(now) if throttle.is_active(now)}
        statuses = {
            key: BurstStatus(burst=burst, tiers=_tiers(burst, ledger[key], holding, now) if key in ledger else ())
            for key, burst in bursts.items()
        }
        return by_account(outcomes, statuses)


def note_of(burst: Burst) -> str | None:
    """Return why fewer users than the audience see the burst or are notified of it; None if no reason applies."""
    if burst.is_retracted:
        return RETRACTED_NOTE
    if burst.is_narrowed:
        return RESTRICTED_NOTE
    return PULL_ONLY_NOTE if burst.pull_only else None


def _event_of(record: Record) -> EventId | None:
    try:
        return (
            unpack(Event, record.value).id if record.stream == topics.MENTIONS else unpack(Mention, record.value).event
        )
    except Poison:  # the record is on its way to the dead letters
        return None


def by_account(outcomes: Sequence[MentionOutcome], statuses: Mapping[BurstKey, BurstStatus]) -> Sequence[AccountStatus]:
    """Group the outcomes by event and account, in order of first appearance."""
    named = dict.fromkeys((outcome.event, outcome.account) for outcome in outcomes)
    grouped = {name: [outcome for outcome in outcomes if (outcome.event, outcome.account) == name] for name in named}
    return [
        AccountStatus(
            source=event.source,
            account=account,
            refusal=next((outcome.refusal for outcome in account_outcomes if outcome.refusal), None),
            bursts=[
                statuses[outcome.burst] for outcome in account_outcomes if outcome.burst and outcome.burst in statuses
            ],
        )
        for (event, account), account_outcomes in grouped.items()
    ]


def held_statuses(held_mention: HeldMention, now: datetime) -> Sequence[AccountStatus]:
    """Return the status of a held mention's accounts. It applies while they have no other outcome."""
    why = held_mention.refusal(now)
    return [
        AccountStatus(source=held_mention.id.source, account=name, refusal=why, bursts=())
        for name in held_mention.accounts
    ]


def _tiers(burst: Burst, progress: BurstProgress, throttles: Collection[str], now: datetime) -> Sequence[TierStatus]:
    """Return the progress of all tiers. A burst without fan-out budget is left entirely to the pull path."""
    all_tiers = tier_statuses(progress, throttles=throttles, now=now)
    return [replace(tier, state=State.PULLED) for tier in all_tiers] if burst.pull_only else all_tiers


def tier_statuses(progress: BurstProgress, *, throttles: Collection[str], now: datetime) -> Sequence[TierStatus]:
    """Return the progress of all tiers. `throttles` are the ids of those in force now."""
    return [_tier(progress, tier, throttles=throttles, now=now) for tier in TIERS]


def _tier(progress: BurstProgress, tier: Tier, *, throttles: Collection[str], now: datetime) -> TierStatus:
    rows = [s for s in progress.slice_states.values() if s.slice.tier is tier and s.slice.step is Step.ROWS]
    ended = [slice_state.final_entry for slice_state in rows if slice_state.final_entry]
    state = state_of(rows, throttles=throttles, now=now)
    return TierStatus(
        tier=tier,
        state=state,
        slices=len(rows),
        ended=len(ended),
        people=sum(entry.people for entry in ended),
        eta_seconds=_eta(progress, state, slices=len(rows), ended=len(ended), now=now),
    )


def state_of(slice_states: Sequence[SliceState], *, throttles: Collection[str], now: datetime) -> State:
    """Return the state of a tier.

    If all slices ended, it is the worst of their states. Otherwise it is the most active state, and a half-done tier is
    in flight.
    """
    states = {slice_state.state(now, throttles=throttles) for slice_state in slice_states}
    waiting = states - {State.DONE, State.PULLED, State.DEAD}
    if not waiting:
        return next((state for state in (State.DEAD, State.PULLED) if state in states), State.DONE)
    if State.IN_FLIGHT in waiting:
        return State.IN_FLIGHT
    if State.PARKED in waiting:
        return State.PARKED
    return State.PLANNED if waiting == states else State.IN_FLIGHT


def _eta(progress: BurstProgress, state: State, *, slices: int, ended: int, now: datetime) -> float | None:
    """Estimate by the mean rate since the burst opened, so that the estimate grows while nothing progresses."""
    if ended == slices:
        return 0.0
    if not ended or state is State.PARKED:
        return None
    return (now - progress.plan.opened_at).total_seconds() / ended * (slices - ended)

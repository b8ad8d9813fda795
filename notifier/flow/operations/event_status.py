"""Status of an event: outcome per account, and progress of the bursts."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from notifier import topics
from notifier.codec import pack, unpack
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.events_and_mentions import Event, EventId, Mention
from notifier.domain.bursts.held_mention import HeldMention
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.delivery.ledger import BurstProgress, SliceState, State
from notifier.domain.delivery.slice_and_pool import Step
from notifier.domain.errors import CacheUnavailable, NotFound, Poison, Unavailable
from notifier.domain.ids import BurstKey, UserId
from notifier.ports.bursts import Bursts, MentionOutcome
from notifier.ports.event_log_and_dead_letters import EventLog, Record
from notifier.ports.leases_queues_throttles_clock import Clock, Throttles
from notifier.ports.ledger_claims_deferred_bursts_scan import Ledger
from notifier.ports.moderation_and_retractions import HeldMentions
from notifier.ports.recent_events_and_load_limits import RecentEvents

PULL_ONLY_NOTE = "Served by the pull path: the fan-out budget was spent."
RETRACTED_NOTE = "Retracted: no user sees it."
RESTRICTED_NOTE = "The author is protected now: only the author's followers see it."
MAX_SEARCHED_RECORDS = 20_000
"""Maximum number of records searched per stream: 40 s of events at the peak of 500 a second."""


class EventStatus(StrEnum):
    ACCEPTED = "accepted"
    """Durable, and not sequenced yet."""
    SEQUENCED = "sequenced"
    """At least one named account has a burst or a refusal. Mentions of other accounts may still wait in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierStatus:
    """Progress of a tier's rows."""

    tier: Tier
    state: State
    slice_count: int
    ended_count: int
    """Number of slices that are done, pulled or dead."""
    people: int
    """Number of users in the slices that are done or pulled."""
    eta_seconds: float | None
    """Estimated seconds until all slices have ended; None if that cannot be estimated."""


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
    """Lock held while the log is searched. It raises Unavailable if another search holds it for too long."""

    def look_up(self, source: str | None, id: str) -> EventReport:
        """Return the status of the event, or of every event with this id if `source` is None.

        An event with an outcome or a held mention is found in the store. Any other event is found in the cache of
        recent events or in the log. Raises NotFound for an unknown event. Raises Unavailable, also if the log has too
        many records to search.
        """
        accounts = self._account_statuses(source, id)
        if not accounts:
            if self._was_accepted_recently(source, id) or self._is_in_log(source, id):
                return EventReport(id=id, status=EventStatus.ACCEPTED, accounts=())
            # Read the store again: the event may have been sequenced after the first read, and have left the log before
            # the search.
            accounts = self._account_statuses(source, id)
        if not accounts:
            raise NotFound(f"Unknown event: {id}.")
        is_sequenced = any(account.refusal or account.bursts for account in accounts)
        return EventReport(
            id=id, status=EventStatus.SEQUENCED if is_sequenced else EventStatus.ACCEPTED, accounts=accounts
        )

    def _was_accepted_recently(self, source: str | None, id: str) -> bool:
        try:
            return self.recent_events.was_accepted(source, id)
        except CacheUnavailable:  # fails open: the log has the event too, and is slower
            return False

    def _is_in_log(self, source: str | None, id: str) -> bool:
        with self.search_lock or nullcontext():
            return self._search_streams(source, id)

    def _search_streams(self, source: str | None, id: str) -> bool:
        """Return whether the event waits in a stream. Raises Unavailable, also if a stream has too many records.

        Streams are searched in the order in which an event passes them. So an event that leaves a stream during the
        search is found in the next stream.
        """
        is_complete = True
        for stream in topics.MENTION_STREAMS:
            is_in_stream = self._is_in_stream(stream, source, id)
            if is_in_stream:
                return True
            is_complete = is_complete and is_in_stream is not None
        if not is_complete:
            raise Unavailable(f"Too many records are waiting to be sequenced; the status of {id} is unknown.")
        return False

    def _is_in_stream(self, stream: str, source: str | None, id: str) -> bool | None:
        """Return whether the event waits in the stream; None if it may be among records that were not searched."""
        # Unpack only records that contain the packed id. The packed id begins with its length, so few other records
        # contain it.
        packed_id, searched = pack(id), 0
        for logged in self.log.read_uncommitted(stream, topics.GROUPS[stream], MAX_SEARCHED_RECORDS):
            searched += 1
            event = _event_of(logged.record) if packed_id in logged.record.value else None
            if event and event.id == id and source in (None, event.source):
                return True
        return None if searched == MAX_SEARCHED_RECORDS else False

    def _account_statuses(self, source: str | None, id: str) -> Sequence[AccountStatus]:
        """Return the status of each account that has an outcome or a held mention.

        Outcomes are read before held mentions, which stay stored after their release. So a mention that is released
        between the two reads is still reported.
        """
        outcomes, now = self.bursts.outcomes(source, id), self.clock.now()
        pairs_with_outcome = {(outcome.event, outcome.account) for outcome in outcomes}
        return [
            *self._routed_statuses(outcomes, now),
            *(
                status
                for held in self.held_mentions.by_event_id([id])
                for status in held_statuses(held, now)
                if source in (None, held.id.source) and (held.id, status.account) not in pairs_with_outcome
            ),
        ]

    def _routed_statuses(self, outcomes: Sequence[MentionOutcome], now: datetime) -> Sequence[AccountStatus]:
        keys = {outcome.burst for outcome in outcomes if outcome.burst}
        bursts, progress = self.bursts.read(keys), self.ledger.read(keys)
        throttle_ids = {throttle.id for throttle in self.throttles.ending_after(now) if throttle.is_active(now)}
        statuses = {
            key: BurstStatus(
                burst=burst,
                tiers=_tier_statuses_of_burst(burst, progress[key], throttle_ids, now) if key in progress else (),
            )
            for key, burst in bursts.items()
        }
        return group_by_account(outcomes, statuses)


def state_note(burst: Burst) -> str | None:
    """Return a note if the burst is retracted, became restricted, or is pull-only."""
    if burst.is_retracted:
        return RETRACTED_NOTE
    if burst.became_restricted:
        return RESTRICTED_NOTE
    return PULL_ONLY_NOTE if burst.pull_only else None


def _event_of(record: Record) -> EventId | None:
    try:
        return (
            unpack(Event, record.value).id if record.stream == topics.MENTIONS else unpack(Mention, record.value).event
        )
    except Poison:  # the record is on its way to the dead letters
        return None


def group_by_account(
    outcomes: Sequence[MentionOutcome], statuses: Mapping[BurstKey, BurstStatus]
) -> Sequence[AccountStatus]:
    """Group the outcomes by event and account, in order of first appearance."""
    pairs = dict.fromkeys((outcome.event, outcome.account) for outcome in outcomes)
    grouped = {pair: [outcome for outcome in outcomes if (outcome.event, outcome.account) == pair] for pair in pairs}
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
    """Return the status of each account of a held mention. Use it only for accounts that have no outcome yet."""
    refusal = held_mention.refusal(now)
    return [
        AccountStatus(source=held_mention.id.source, account=account, refusal=refusal, bursts=())
        for account in held_mention.accounts
    ]


def _tier_statuses_of_burst(
    burst: Burst, progress: BurstProgress, throttle_ids: Collection[str], now: datetime
) -> Sequence[TierStatus]:
    """Return the progress of all tiers. A pull-only burst has no fan-out, so all its tiers are PULLED."""
    all_tiers = tier_statuses(progress, throttle_ids=throttle_ids, now=now)
    return [replace(tier, state=State.PULLED) for tier in all_tiers] if burst.pull_only else all_tiers


def tier_statuses(progress: BurstProgress, *, throttle_ids: Collection[str], now: datetime) -> Sequence[TierStatus]:
    """Return the progress of all tiers. `throttle_ids` are those of the throttles in force now."""
    return [_tier_status(progress, tier, throttle_ids=throttle_ids, now=now) for tier in TIERS]


def _tier_status(progress: BurstProgress, tier: Tier, *, throttle_ids: Collection[str], now: datetime) -> TierStatus:
    rows_slices = [s for s in progress.slice_states.values() if s.slice.tier is tier and s.slice.step is Step.ROWS]
    ended = [slice_state.final_entry for slice_state in rows_slices if slice_state.final_entry]
    state = state_of(rows_slices, throttle_ids=throttle_ids, now=now)
    return TierStatus(
        tier=tier,
        state=state,
        slice_count=len(rows_slices),
        ended_count=len(ended),
        people=sum(entry.people for entry in ended),
        eta_seconds=_eta(progress, state, slice_count=len(rows_slices), ended_count=len(ended), now=now),
    )


def state_of(slice_states: Sequence[SliceState], *, throttle_ids: Collection[str], now: datetime) -> State:
    """Return the state of a tier from the states of its slices."""
    states = {slice_state.state(now, throttle_ids=throttle_ids) for slice_state in slice_states}
    unfinished = states - {State.DONE, State.PULLED, State.DEAD}
    if not unfinished:
        return next((state for state in (State.DEAD, State.PULLED) if state in states), State.DONE)
    if State.IN_FLIGHT in unfinished:
        return State.IN_FLIGHT
    if State.PARKED in unfinished:
        return State.PARKED
    return State.PLANNED if unfinished == states else State.IN_FLIGHT


def _eta(progress: BurstProgress, state: State, *, slice_count: int, ended_count: int, now: datetime) -> float | None:
    """Estimate the seconds by the mean rate since the burst opened. The estimate grows while no further slice ends."""
    if ended_count == slice_count:
        return 0.0
    if not ended_count or state is State.PARKED:
        return None
    return (now - progress.plan.opened_at).total_seconds() / ended_count * (slice_count - ended_count)

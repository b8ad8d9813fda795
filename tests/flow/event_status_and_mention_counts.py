"""Short forms of event status and of mention counts, for tests of moderation verdicts."""

from notifier.domain.bursts.moderation import MentionRefusal
from notifier.flow.operations.event_status import EventStatusLookup
from tests.support.in_memory_system import Stage


def status_of(stage: Stage, id: str) -> tuple[str, dict[str, tuple[MentionRefusal | None, int]]]:
    """Return the status, and the refusal and number of bursts of each account."""
    state = stage.state
    statuses = EventStatusLookup(
        bursts=state.bursts,
        held_mentions=state.held_mentions,
        ledger=state.ledger,
        throttles=state.throttles,
        recent_events=state.recent_events,
        log=state.log,
        clock=state.clock,
    )
    status = statuses.look_up(None, id)
    return status.status, {entry.account: (entry.refusal, len(entry.bursts)) for entry in status.accounts}


def mention_counts(stage: Stage) -> dict[str, int]:
    return {str(key): burst.count for key, burst in stage.state.bursts.by_key.items()}

"""Short forms of event status, for tests of moderation verdicts."""

from notifier.domain.bursts.moderation import MentionRefusal
from notifier.flow.operations.event_status import EventStatusLookup
from tests.support.in_memory_system import Stage


def status_of(stage: Stage, id: str) -> tuple[str, dict[str, tuple[MentionRefusal | None, int]]]:
    """Return the status, and the refusal and number of bursts of each account."""
    g = stage.state
    fates = EventStatusLookup(
        bursts=g.bursts,
        held_mentions=g.held_mentions,
        ledger=g.ledger,
        throttles=g.throttles,
        recent_events=g.recent_events,
        log=g.log,
        clock=g.clock,
    )
    status = fates.look_up(None, id)
    return status.status, {entry.account: (entry.refusal, len(entry.bursts)) for entry in status.accounts}


def counts(stage: Stage) -> dict[str, int]:
    return {str(key): burst.count for key, burst in stage.state.bursts.by_key.items()}

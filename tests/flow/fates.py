"""What became of events, in few words: for tests of how far mentions carry."""

from notifier.domain.bursts.moderation import MentionRefusal
from notifier.flow.operations.event_status import Fates
from tests.support.in_memory_system import Stage


def fate(stage: Stage, id: str) -> tuple[str, dict[str, tuple[MentionRefusal | None, int]]]:
    """With the refusal and the number of bursts of each account."""
    g = stage.ground
    fates = Fates(
        bursts=g.bursts,
        holds=g.holds,
        ledger=g.ledger,
        throttles=g.throttles,
        recent=g.recent,
        log=g.log,
        clock=g.clock,
    )
    found = fates.look_up(None, id)
    return found.status, {one.account: (one.refusal, len(one.bursts)) for one in found.accounts}


def counts(stage: Stage) -> dict[str, int]:
    return {str(key): burst.count for key, burst in stage.ground.bursts.by_key.items()}

"""Short forms of retractions on a stage, and the bursts that remain."""

from collections.abc import Sequence
from dataclasses import dataclass

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.bursts.retraction import Retraction, RetractionCause
from notifier.domain.ids import Subject, UserId
from notifier.domain.upstream.validation import DELETED_TYPE, EDITED_TYPE
from tests.support.failing_and_corrupt_ports import FailingHeads
from tests.support.in_memory_system import NOVA, Stage


def delete(stage: Stage, tweet: str = "t1", author: str = "ada") -> None:
    stage.send_event(DELETED_TYPE, tweet=tweet, author=author)


def edit(stage: Stage, *mentioned: str, text: str = "edited", sequence: int = 1) -> None:
    stage.send_event(EDITED_TYPE, tweet="t1", author="ada", mentions=[*mentioned], text=text, sequence=sequence)


def deletion(stage: Stage, tweet: str, author: str = "") -> Retraction:
    """Return a deletion that is in no log yet. The author defaults to the tweet's id."""
    now, by = stage.state.clock.now(), UserId(author or tweet)
    return Retraction(id=EventId("x", tweet), cause=RetractionCause.DELETE, author=by, tweet=tweet, at=now, sequence=1)


@dataclass
class RecordsBatchSizes:
    """A live bus that records the size of each publication."""

    sizes: list[int]

    def publish(self, messages: Sequence[object]) -> None:
        self.sizes.append(len(messages))


def newest_burst(stage: Stage, subject: Subject = NOVA) -> Burst:
    return stage.state.bursts.by_key[stage.bursts(subject)[-1]]


def mentioners(stage: Stage, person: str) -> list[tuple[UserId, ...]]:
    return [item.mentioners for item in stage.items(person)]


def delete_in_log_only(stage: Stage) -> None:
    append_to_log_only(stage, DELETED_TYPE, tweet="t1", author="ada")


def append_to_log_only(stage: Stage, type: str, **data: object) -> None:
    """Send an event while the gateway cannot settle it."""
    stage.send_event(type, stage.system(heads=FailingHeads(stage.state.heads)), **data)

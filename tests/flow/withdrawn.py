"""What is taken back on a stage, in few words, and what is left of a burst."""

from collections.abc import Sequence
from dataclasses import dataclass

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.mention import EventId
from notifier.domain.bursts.retraction import Retraction, RetractionCause
from notifier.domain.ids import Subject, UserId
from notifier.domain.upstream.validation import DELETED_TYPE, EDITED_TYPE
from tests.support.failing_ports import Unswapped
from tests.support.in_memory_system import NOVA, Stage


def delete(stage: Stage, tweet: str = "t1", author: str = "ada") -> None:
    stage.say(DELETED_TYPE, tweet=tweet, author=author)


def edit(stage: Stage, *mentioned: str, text: str = "edited", sequence: int = 1) -> None:
    stage.say(EDITED_TYPE, tweet="t1", author="ada", mentions=[*mentioned], text=text, sequence=sequence)


def deleted(stage: Stage, tweet: str, author: str = "") -> Retraction:
    """Said, and heard by nobody yet; by whom the tweet is called after where nobody else is named."""
    now, by = stage.ground.clock.now(), UserId(author or tweet)
    return Retraction(id=EventId("x", tweet), cause=RetractionCause.DELETE, author=by, tweet=tweet, at=now, sequence=1)


@dataclass
class Counting:
    """A bus that is told so many words at a time."""

    told: list[int]

    def publish(self, words: Sequence[object]) -> None:
        self.told.append(len(words))


def burst(stage: Stage, subject: Subject = NOVA) -> Burst:
    return stage.ground.bursts.by_key[stage.bursts(subject)[-1]]


def names(stage: Stage, person: str) -> list[tuple[UserId, ...]]:
    return [item.names for item in stage.items(person)]


def delete_in_the_log_alone(stage: Stage) -> None:
    say_in_the_log_alone(stage, DELETED_TYPE, tweet="t1", author="ada")


def say_in_the_log_alone(stage: Stage, type: str, **data: object) -> None:
    stage.say(type, stage.system(heads=Unswapped(stage.ground.heads)), **data)

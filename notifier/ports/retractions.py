"""What was taken back, kept longer than what it is about; and the trails that lead to the mentions it is about."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from notifier.domain.bursts.held_mention import HeldMention, ModerationDecision
from notifier.domain.bursts.mention import EventId, Mention
from notifier.domain.bursts.moderation import ReachWord
from notifier.domain.bursts.retraction import Retraction, Trail
from notifier.domain.ids import BurstKey, UserId
from notifier.ports.event_log import DeadLetter


@dataclass(frozen=True, slots=True, order=True)
class MentionLocation:
    """Where a mention is kept."""

    burst: BurstKey
    event: EventId


class Retractions(Protocol):
    """Durable. Everything raises StoreUnavailable, and Full where it writes; whoever writes again writes the same.

    Mentions come to their trails with `Bursts.write`, and are on all of them before that returns. Whoever writes a
    retraction and then follows its trails, and whoever writes a mention and then asks what stands: one of the two
    always sees what the other wrote.
    """

    def write(self, retractions: Collection[Retraction]) -> None:
        """Each, unless what stands under its trail ranks higher."""
        ...

    def standing(self, trails: Collection[Trail]) -> Mapping[Trail, Retraction]:
        """What stands under them; most have nothing."""
        ...

    def along(self, trails: Collection[Trail], burst: BurstKey | None = None) -> Iterator[MentionLocation]:
        """All that they lead to, one after another, or what of it is in the burst; read as it is asked for, however
        much there is."""
        ...

    def read(self, places: Collection[MentionLocation]) -> Mapping[MentionLocation, Mention]:
        """The mentions as they stand there, also those that were retracted."""
        ...

    def within(self, burst: BurstKey) -> Iterator[Mention]:
        """All of a burst's mentions, as `read` has them; read as they are asked for."""
        ...


# What is left of somebody's words beside mentions: events that are held, and dead letters.


class Traces(Protocol):
    """Durable. Everything raises StoreUnavailable, and Full where it writes; whoever blanks again changes nothing."""

    def held(self, authors: Collection[UserId]) -> Iterator[HeldMention]:
        """The authors', decided or not, whose event has a text; read as they are asked for."""
        ...

    def blank(self, holds: Collection[HeldMention]) -> None:
        """Their events have no text any more, also where somebody puts them again. All else of them stays."""
        ...

    def letters(self) -> Iterator[DeadLetter]:
        """All that have a body, in no order; read as they are asked for."""
        ...

    def empty(self, letters: Collection[DeadLetter]) -> None:
        """They have no body any more, also where somebody puts them again. All else of them stays."""
        ...


# Mentions that are held until a person decides.


class Holds(Protocol):
    """Durable; a hold is known as long as its event may be asked for, its text while it may wait. Raises
    StoreUnavailable, and Full where it writes."""

    def put(self, holds: Collection[HeldMention]) -> None:
        """Each, unless it is there: of an event the first hold stands, decided or not."""
        ...

    def waiting(self) -> Iterator[HeldMention]:
        """Those that nobody has decided yet, in no order; read as they are asked for. One that is decided meanwhile may
        be left out."""
        ...

    def count(self) -> int:
        """How many wait."""
        ...

    def of(self, ids: Collection[str]) -> Sequence[HeldMention]:
        """Of every event with one of these ids, whatever its source, by id and source; decided and lapsed ones as well.
        One look-up, for routers."""
        ...

    def decide(self, event: EventId, decision: ModerationDecision, who: str, now: datetime) -> bool:
        """Decides what waits, once, and writes who did to the audit in the same step; False where it doesn't wait."""
        ...


# What operators said of mentioners: how far their mentions may carry, with who said so, why and when.


class Reaches(Protocol):
    """Durable. Raises StoreUnavailable, and Full where it writes."""

    def say(self, word: ReachWord) -> None:
        """Unless what stands of the account was said later; it is written to the audit in the same step."""
        ...

    def standing(self, users: Collection[UserId]) -> Mapping[UserId, ReachWord]:
        """What stands of them; without those of whom nothing was ever said. One look-up, for routers."""
        ...

    def listed(self) -> Sequence[ReachWord]:
        """What stands of everybody of whom something was said, by name."""
        ...

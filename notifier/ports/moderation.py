"""Mentions that are held until a person decides."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from notifier.domain.bursts.held_mention import Decision, Hold
from notifier.domain.bursts.mention import EventId
from notifier.domain.bursts.moderation import ReachWord
from notifier.domain.ids import UserId


class Holds(Protocol):
    """Durable; a hold is known as long as its event may be asked for, its text while it may wait. Raises
    StoreUnavailable, and Full where it writes."""

    def put(self, holds: Collection[Hold]) -> None:
        """Each, unless it is there: of an event the first hold stands, decided or not."""
        ...

    def waiting(self) -> Iterator[Hold]:
        """Those that nobody has decided yet, in no order; read as they are asked for. One that is decided meanwhile may
        be left out."""
        ...

    def count(self) -> int:
        """How many wait."""
        ...

    def of(self, ids: Collection[str]) -> Sequence[Hold]:
        """Of every event with one of these ids, whatever its source, by id and source; decided and lapsed ones as well.
        One look-up, for routers."""
        ...

    def decide(self, event: EventId, decision: Decision, who: str, now: datetime) -> bool:
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

"""What operators said of mentioners: how far their mentions may carry, with who said so, why and when."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from notifier.domain.bursts.moderation import ReachWord
from notifier.domain.ids import UserId


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

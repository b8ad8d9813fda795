"""What one person wants of subjects and of everything, as the person reads and says it; fan-out follows behind it."""

from collections.abc import Mapping
from typing import Protocol

from notifier.domain.ids import Member, Subject
from notifier.domain.users.account_preferences import Overall, OverallWord
from notifier.domain.users.subject_preferences import Want, Word


class Preferences(Protocol):
    """Asynchronous: people wait. Raises StoreUnavailable, and Full where it writes."""

    async def read(self, member: Member) -> Mapping[Subject, Want]:
        """Of every subject of which the member, or the member's block, said something. One's own words at once."""
        ...

    async def write(self, word: Word) -> None:
        """Unless what stands of what it is about was said later."""
        ...

    async def overall(self, member: Member) -> Overall:
        """What the member says of everything. One's own words at once."""
        ...

    async def say(self, word: OverallWord) -> None:
        """Unless what stands of what it is about was said later."""
        ...

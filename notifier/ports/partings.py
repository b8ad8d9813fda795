"""Who blocks whom: the rows that a person's sight is made of, and by which a phone is spared."""

from collections.abc import Collection
from typing import Protocol

from notifier.domain.users.user_blocks import Parting


class Partings(Protocol):
    """Durable. Raises StoreUnavailable; whoever writes again writes the same."""

    def write(self, partings: Collection[Parting]) -> None:
        """Each, on both sides, unless what stands of its pair has the higher sequence. In any order, and any number of
        times. Cut off, one of the two may know of it already."""
        ...

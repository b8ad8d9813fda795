"""What a client library does for the log: it sends records, and it reads as a member of a group."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from notifier.adapters.kafka.config import Access
from notifier.ports.event_log import Logged, Record

ANSWERS_WITHIN = 3.0
"""Seconds of one append: the tweet service tries again, and nobody is held up for longer."""
KNOWN_WITHIN = timedelta(seconds=3)
"""So long after a topic grew everybody who sends or reads knows of its new partitions."""
BATCH = 131_072
"""Bytes that are sent at once, and come at once to who reads them: with 16 kB half as many records a second."""
AT_ONCE = 1_000
"""Records of one read, of all partitions."""
BYTES = 262_144
"""Of one partition that are fetched at once: what is behind it waits, and a read is for all of them."""
MOST_AWAY = timedelta(minutes=1)
"""Between two polls; who takes longer over a batch, or waits for a store, leaves the group to the others."""


class TooLate(Exception):
    """A commit by who no longer owns what it is for. It is read and done again, by us or by somebody else."""


class Fenced(Exception):
    """Another process reads under this name."""


class Unreadable(Exception):
    """The library gave up in the middle of what it was handed, and goes on nowhere until it is made anew."""


TOO_LARGE = frozenset({"MessageSizeTooLargeError", "RecordListTooLargeError"})
"""As the library calls a record that the brokers never take."""

Answered = Callable[[str | None], None]
"""Told what went wrong, or None."""


class Sender(Protocol):
    """Thread-safe; records of a key keep their order, also when one is tried again."""

    def send(self, record: Record, answered: Answered) -> None:
        """Calls `answered` once, when the record is on enough replicas (None) or has failed for good.

        Bounded in time. Raises LogUnavailable or Poison, and then doesn't call it.
        """
        ...

    def close(self) -> None: ...


class Changes(Protocol):
    """Is told who reads what, in the middle of a poll."""

    def gained(self, numbers: Iterable[int]) -> None: ...

    def lost(self) -> None:
        """All of them, at each change of the group: who keeps one reads it again from behind the commit."""
        ...


class Membership(Protocol):
    """Reads some partitions of a topic, by number. Everything is bounded in time and may raise LogUnavailable.

    An offset is that of the record that is read next.
    """

    def poll(self, wait: timedelta) -> Sequence[Logged]:
        """Also keeps the place in the group. Raises Fenced or Unreadable."""
        ...

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Raises TooLate or Fenced."""
        ...

    def commits(self) -> Mapping[int, int | None]:
        """The group's, of every partition that there is; None where there is none."""
        ...

    def bounds(self, numbers: Iterable[int]) -> Mapping[int, tuple[int, int]]:
        """The offset of the first record, and the one behind the last."""
        ...

    def life(self) -> str:
        """Of the topic, as far as the client knows without asking; empty where it doesn't."""
        ...

    def unread(self) -> bool:
        """Whether some partition is nobody's, though the group is at rest."""
        ...

    def seek(self, number: int, offset: int) -> None: ...

    def close(self) -> None:
        """Gives up its place at once, if the brokers can be told; else its lease ends by itself."""
        ...


class Client(Protocol):
    def sender(self, access: Access) -> Sender: ...

    def membership(self, access: Access, stream: str, group: str, name: str, changes: Changes) -> Membership: ...

"""A reader of the event log on Kafka: a member of a group, which commits what is done and nothing that it has lost."""

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from math import inf
from time import monotonic

from notifier.adapters.kafka.client import MOST_AWAY, Client, Fenced, Membership, TooLate, Unreadable
from notifier.adapters.kafka.config import Access
from notifier.adapters.kafka.partition_growth import Growth, begun
from notifier.adapters.kafka.topics import incarnation, named
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log import Logged, Record

LOGGER = logging.getLogger("notifier.kafka")

JOINS_WITHIN = 15.0
"""Seconds; a client that is no member by then is thrown away, for one that has wedged never will be."""
JOINS_AGAIN_WITHIN = MOST_AWAY.total_seconds() + JOINS_WITHIN
"""The same of one that had its place, while its group shares anew: that waits for whoever is busy with a batch."""
FENCED_FOR = 60.0
"""Seconds until one whose name somebody else has taken tries it again."""
STALLS_FOR = 30.0
"""Seconds in which a member reads nothing of what is there for it; then it is thrown away, too."""
IDLE_FOR = 5.0
"""Seconds that a member without partitions waits until it looks whether it is left out; with many readers some are."""
MOST_AHEAD = 10_000
"""Records that are read while nobody says where the group stands; whoever has more reads them again when it is said."""
LOOKS_EVERY = 0.5
"""Seconds between two looks whether a new partition may be read."""


class KafkaReader:
    def __init__(
        self, client: Client, access: Access, stream: str, group: str, owner: str, *, idle_for: float = IDLE_FOR
    ) -> None:
        self._client, self._access = client, access
        self._stream, self._group, self._name = stream, group, access.instance or owner
        self._made: Membership | None = None
        self._joins_by = inf
        """By the monotonic clock; never while it has its place."""
        self._fenced_until = 0.0
        self._ahead: dict[int, deque[Logged]] = {}
        """Read and not yet asked for, by partition; the one that comes first next time stands first."""
        self._committed: dict[int, int] = {}
        """Of partitions that are ours: the offset that is read next after a restart."""
        self._unknown: set[int] = set()
        """Ours since just now: whether they are new, and where the group stands in them, is to be asked."""
        self._growth = Growth()
        self._incarnation = ""
        """Of the topic; part of the names of its partitions."""
        self._looked_at = 0.0
        self._idle_for = idle_for
        self._idle_since = 0.0
        self._quiet = False
        """Whether the last read had nothing."""
        self._stalls_since = inf
        """When something was first there, by `lag`, that reads don't get."""

    def poll(self, limit: int, wait: timedelta) -> Sequence[Logged]:
        # Also who wants nothing reads: never to poll is to leave the group, and a paused partition stalls for good.
        if not self._ahead or self._unknown or limit == 0:
            found = self._read(wait)
            self._quiet = not found
            for logged in found:
                self._ahead.setdefault(_number(logged.partition), deque()).append(logged)
        if self._made_anew():
            self.close()
            return []
        try:
            self._hold()
        finally:
            if self._unknown and sum(map(len, self._ahead.values())) > MOST_AHEAD:
                self.close()
        if self._unknown:
            return []
        return [named(self._next(), self._incarnation) for _ in range(min(limit, sum(map(len, self._ahead.values()))))]

    def commit(self, positions: Mapping[str, int]) -> None:
        if self._made_anew():
            self.close()
        # What was read of the topic's former life says nothing of this one.
        ours = f"{self._stream}@{self._incarnation}/"
        offsets = {_number(one): offset + 1 for one, offset in positions.items() if one.startswith(ours)}
        self._commit({number: at for number, at in offsets.items() if at > self._committed.get(number, at)})

    def holds(self) -> bool:
        if self._made_anew():
            self.close()
        # Said once more, what is committed moves nothing; brokers take it only from who is still a member. A new
        # partition has no commit until it may be read.
        return self._commit({number: at for number, at in self._committed.items() if number not in self._growth.holds})

    def lag(self) -> int:
        if self._made is None or not (self._committed or self._unknown):
            return 0
        self._learn()
        bounds = self._made.bounds(self._committed)
        if any(bounds[number][1] < at for number, at in self._committed.items()):
            self.close()  # made anew, before the library has noticed
            return 0
        behind = sum(bounds[number][1] - max(bounds[number][0], at) for number, at in self._committed.items())
        if self._stalls(behind):
            LOGGER.warning("%s has read nothing for %g s of %d records: it starts anew", self._name, STALLS_FOR, behind)
            self.close()
        return behind

    def close(self) -> None:
        made, self._made, self._stalls_since = self._made, None, inf
        self.lost()
        if made is not None:
            made.close()

    def gained(self, numbers: Iterable[int]) -> None:
        self._joins_by, self._idle_since = inf, monotonic()
        self._unknown.update(numbers)

    def lost(self) -> None:
        if self._joins_by == inf:  # else it never had a place: the library says so at its first try, too
            self._joins_by = monotonic() + JOINS_AGAIN_WITHIN
        self._ahead.clear()
        self._committed.clear()
        self._unknown.clear()

    def _made_anew(self) -> bool:
        """Whether the topic was deleted and made again under a client that would go on where it was: behind records of
        the new one that it never read."""
        life = self._made.life() if self._made is not None else ""
        found = bool(self._committed) and bool(life) and life != self._incarnation
        if found:
            LOGGER.warning("%s finds that %s was made anew: it starts anew, too", self._name, self._stream)
        return found

    def _next(self) -> Logged:
        """Of each partition in turn: the libraries give all that they have of one before they come to another."""
        number = next(iter(self._ahead))
        records = self._ahead.pop(number)
        found = records.popleft()
        if records:
            self._ahead[number] = records
        return found

    def _read(self, wait: timedelta) -> Sequence[Logged]:
        try:
            return self._member().poll(wait)
        except Fenced as error:
            raise self._fence() from error
        except Unreadable as error:
            self.close()
            raise LogUnavailable(f"What is in the log can't be read: {error}.") from error
        except LogUnavailable:
            raise
        except Exception:
            # The client has passed what it should have handed out: read again from the commit.
            self.close()
            raise

    def _commit(self, offsets: Mapping[int, int]) -> bool:
        if self._made is None or not offsets:
            return False
        try:
            self._made.commit(offsets)
        except TooLate:
            LOGGER.info("%s of %s came too late with a commit", self._name, self._group)
            return False
        except Fenced as error:
            raise self._fence() from error
        self._committed |= {number: at for number, at in offsets.items() if number in self._committed}
        return True

    def _hold(self) -> None:
        """What comes from a new partition is thrown away until it may be read, and read again then."""
        self._learn()
        mine = self._growth.holds.keys() & self._committed.keys()
        if mine and monotonic() >= self._looked_at + LOOKS_EVERY:
            self._looked_at = monotonic()
            self._release(mine)
        for number in self._growth.holds.keys() & self._ahead.keys():
            del self._ahead[number]

    def _learn(self) -> None:
        """About partitions that are ours since just now."""
        if self._made is None or not self._unknown:
            return
        commits = self._made.commits()
        if not begun(commits):
            # At worst somebody else has begun meanwhile and reads a little again.
            if not self._commit(dict.fromkeys(commits, 0)):
                return
            commits = dict.fromkeys(commits, 0)
        self._incarnation = incarnation(self._access, self._stream)
        bounds = self._made.bounds(self._unknown)
        self._growth.learn(commits, monotonic())
        # A commit from the topic's former life may be behind the end of this one.
        self._committed |= {
            number: at if (at := commits[number] or 0) <= bounds[number][1] else bounds[number][0]
            for number in self._unknown
        }
        self._unknown.clear()

    def _release(self, mine: Iterable[int]) -> None:
        assert self._made is not None
        bounds = self._made.bounds({*mine, *self._growth.elders()})
        for number in set(self._growth.released(self._made.commits(), bounds, monotonic())) & set(mine):
            first = bounds[number][0]
            # The commit is first: whoever takes the partition over from here on reads it, too.
            if not self._commit({number: first}):
                return
            self._made.seek(number, first)
            del self._growth.holds[number]
            self._ahead.pop(number, None)
            LOGGER.info("%s reads the new partition %s/%d", self._name, self._stream, number)

    def _member(self) -> Membership:
        """The client; another one when this one hasn't become a member in time."""
        if monotonic() < self._fenced_until:
            raise self._taken()
        if self._made is not None and monotonic() > self._joins_by:
            LOGGER.warning("%s has no place in %s, and gets none: it starts anew", self._name, self._group)
            self.close()
        if self._made is not None and self._joins_by == inf and self._left_out(self._made):
            LOGGER.warning("%s has no part of %s, and some of it is nobody's: it starts anew", self._name, self._stream)
            self.close()
        if self._made is None:
            self._joins_by = monotonic() + JOINS_WITHIN
            self._made = self._client.membership(self._access, self._stream, self._group, self._name, self)
        return self._made

    def _stalls(self, behind: int) -> bool:
        """What is held is there, too, and waits for its turn; and what came just now is no stall."""
        held = self._growth.holds.keys() & self._committed.keys()
        gets_nothing = behind > 0 and self._quiet and not self._ahead and not held
        self._stalls_since = min(self._stalls_since, monotonic()) if gets_nothing else inf
        return monotonic() > self._stalls_since + STALLS_FOR

    def _left_out(self, made: Membership) -> bool:
        if self._committed or self._unknown or monotonic() < self._idle_since + self._idle_for:
            return False
        self._idle_since = monotonic()
        return made.unread()

    def _fence(self) -> LogUnavailable:
        """Not again at once: that would throw out whoever has it now. Later, or nobody read when that one is gone."""
        self._fenced_until = monotonic() + FENCED_FOR
        self.close()
        return self._taken()

    def _taken(self) -> LogUnavailable:
        return LogUnavailable(f"Another process reads {self._stream} under the name {self._name}.")


def _number(partition: str) -> int:
    return int(partition.rpartition("/")[2])


# What stands in a topic, as a record of ours, whatever it is and whoever wrote it.


def logged(stream: str, partition: int, offset: int, *, key: bytes | None, value: bytes | None) -> Logged:
    """Never raises: the client has passed what it hands out, and what came with it would be lost. A stage that can make
    nothing of it buries it, and goes on with the others."""
    record = Record(stream=stream, key=(key or b"").decode(errors="replace"), value=value or b"")
    return Logged(partition=f"{stream}/{partition}", offset=offset, record=record)

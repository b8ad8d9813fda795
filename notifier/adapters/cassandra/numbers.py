"""Free numbers: leased by compare-and-set, some at a time, and given out by this process from its own lease."""

from collections.abc import Collection, Sequence
from threading import Lock

from notifier.adapters.cassandra.session import SERIAL, Cluster
from notifier.domain.errors import NumberTaken
from notifier.domain.ids import Member
from notifier.ports.directory import LEASED

_FREE = "SELECT free FROM numbers WHERE book = ?"
_FIRST = "INSERT INTO numbers (book, free) VALUES (?, ?) IF NOT EXISTS"
_MOVE = "UPDATE numbers SET free = ? WHERE book = ? IF free = ?"


class Book:
    """Numbers that only rise. A swap whose answer was lost raises StoreUnavailable: if it took effect, its numbers are
    nobody's for ever."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name

    def lease(self, count: int) -> int:
        """The first of so many that nobody else has, at least one."""
        if count < 1:
            raise ValueError(f"{count} numbers can't be leased.")
        while not self._moved(free := self.free(), free + count):
            pass  # another came first
        return free

    def pass_over(self, end: int) -> None:
        """Whatever is below is somebody's."""
        while (free := self.free()) < end and not self._moved(free, end):
            pass

    def free(self) -> int:
        """Never 0 once anybody has any."""
        rows = self._cluster.ask(_FREE, (self._name,), profile=SERIAL)
        return rows[0].free if rows else 0

    def _moved(self, free: int, to: int) -> bool:
        if free:
            return self._cluster.decide(_MOVE, (to, self._name, free))
        return self._cluster.decide(_FIRST, (self._name, to))


class Numbers:
    """Of members."""

    def __init__(self, cluster: Cluster) -> None:
        self._book = Book(cluster, "members")
        self._own = range(0)
        self._lock = Lock()

    def take(self, count: int) -> Sequence[int]:
        """So many: first those that are left of the last lease."""
        with self._lock:
            rest = self._own[:count]
            self._own = self._own[count:]
            if not (wanted := count - len(rest)):
                return rest
            leased = max(wanted, LEASED)
            first = self._book.lease(leased)
            self._own = range(first + wanted, first + leased)
            return [*rest, *range(first, first + wanted)]

    def require_given(self, members: Collection[Member]) -> None:
        """Raises NumberTaken for those that this process is about to give to others."""
        with self._lock:
            if mine := [member for member in members if member in self._own]:
                raise NumberTaken(f"{mine[0]} is to be somebody else's.")

    def lease(self, count: int) -> Member:
        return Member(self._book.lease(count))

    def pass_over(self, end: int) -> None:
        self._book.pass_over(end)

    def end(self) -> Member:
        return Member(self._book.free())


class CassandraEpochs:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def begin(self, name: str) -> int:
        return Book(self._cluster, f"epoch of {name}").lease(1)

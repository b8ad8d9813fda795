"""Free numbers: leased by compare-and-set, some at a time, and given out by this process from its own lease."""

from threading import Lock

from notifier.adapters.cassandra.session import SERIAL, Cluster
from notifier.domain.subject import Member
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
        """The first of so many that nobody else has."""
        while not self._moved(free := self._free(), free + count):
            pass  # another came first
        return free

    def pass_over(self, end: int) -> None:
        """Whatever is below is somebody's."""
        while (free := self._free()) < end and not self._moved(free, end):
            pass

    def _free(self) -> int:
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

    def take(self, count: int) -> range:
        """So many, one after the other. What is left of a lease that is too short is left out for ever."""
        with self._lock:
            if len(self._own) < count:
                leased = max(count, LEASED)
                first = self._book.lease(leased)
                self._own = range(first, first + leased)
            taken, self._own = self._own[:count], self._own[count:]
            return taken

    def lease(self, count: int) -> Member:
        return Member(self._book.lease(count))

    def pass_over(self, end: int) -> None:
        self._book.pass_over(end)


class CassandraEpochs:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def begin(self, name: str) -> int:
        return Book(self._cluster, f"epoch of {name}").lease(1)

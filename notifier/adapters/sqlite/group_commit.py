"""Group commit: of the threads that wait, one writes for all, so that they share one transaction and one sync."""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class _Waiting(Generic[T]):
    def __init__(self, item: T) -> None:
        self.item = item
        self.ended = False
        self.error: BaseException | None = None


class Together(Generic[T]):
    def __init__(self, write: Callable[[Sequence[T]], None]) -> None:
        self._write = write
        self._waiting: list[_Waiting[T]] = []
        self._joining = threading.Lock()
        self._writing = threading.Lock()

    def __call__(self, item: T) -> None:
        """Returns once the item was written, by this thread or by another; items of one thread keep their order.

        Raises what `write` raised for the batch that the item was in.
        """
        mine = _Waiting(item)
        with self._joining:
            self._waiting.append(mine)
        with self._writing:
            if not mine.ended:
                self._write_all()
        if mine.error is not None:
            raise mine.error

    @property
    def waiting(self) -> int:
        """Items whose batch hasn't begun."""
        return len(self._waiting)

    def _write_all(self) -> None:
        with self._joining:
            batch, self._waiting = self._waiting, []
        error: BaseException | None = None
        try:
            self._write([waiting.item for waiting in batch])
        # Whatever stops this thread, an interrupt too, the others must not take their items for written.
        except BaseException as caught:
            error = caught
        for waiting in batch:
            waiting.ended, waiting.error = True, error

"""Asking SQLite from a loop of coroutines: a thread asks in its place, and nobody waits for ever."""

import asyncio
import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar
from weakref import finalize

from notifier.bounded_executor import InFlightLimit
from notifier.mailbox import Mailbox, Mailboxes

# The line of questions that wait for a thread: one thread asks, and others help while it is held up.

LONGEST_KEPT = timedelta(milliseconds=5)
"""An answer that has waited for others so long is handed over before the next question, which may hang."""


class Question:
    def __init__(self, ask: Callable[[], Any], mailbox: Mailbox) -> None:
        self.answered: asyncio.Future[Any] = mailbox.loop.create_future()
        """Belongs to the loop; other threads only look whether it was given up."""
        self.mailbox = mailbox
        self._ask = ask
        self._answer: Any = None
        self._error: BaseException | None = None

    def ask(self) -> None:
        if self.answered.done():  # its deadline has passed while it waited
            return
        try:
            self._answer = self._ask()
        except BaseException as error:  # whatever it is, it is the asker's: the thread goes on with the next question
            self._error = error
        self.mailbox.put(self._hand_over)

    def _hand_over(self) -> None:
        # An error keeps the frames that have this question, which must then keep neither the error nor its answer.
        answered, error = self.answered, self._error
        del self.answered, self._error
        if answered.done():
            return
        if error is not None:
            answered.set_exception(error)
        else:
            answered.set_result(self._answer)


class ReaderThreads:
    """Starts its threads with the first question. It doesn't know the reader, so that they end with that one."""

    def __init__(self, threads: int, helpers: int, held_up_after: timedelta, together: int) -> None:
        """`together`: so many answers of a thread wake the loop once, as long as questions wait."""
        self._questions: SimpleQueue[Question | None] = SimpleQueue()
        """None is the end of the line."""
        self._lasting = threads
        self._most = threads + helpers
        self._held_up_after = held_up_after.total_seconds()
        self._together = together
        self._lock = threading.Lock()
        self._numbers = count()
        self._threads: dict[int, threading.Thread] = {}
        self._free_by: dict[int, float] = {}
        """By thread: when it is held up if it still asks the same question."""

    def append(self, question: Question) -> None:
        with self._lock:
            self._questions.put(question)
            while len(self._threads) < self._lasting:
                self._start(self._work)
            now = time.monotonic()
            if len(self._threads) < self._most and all(by < now for by in self._free_by.values()):
                self._start(self._help)

    def close(self) -> None:
        self._questions.put(None)

    def join(self) -> None:
        """Wait until everything is asked. Must be called after `close`."""
        for thread in [*self._threads.values()]:
            thread.join()

    def _start(self, run: Callable[[int], None]) -> None:
        number = next(self._numbers)
        self._free_by[number] = math.inf
        self._threads[number] = threading.Thread(target=run, args=(number,), name=f"sqlite-{number}", daemon=True)
        self._threads[number].start()

    def _work(self, number: int) -> None:
        answers = _Answers(self._together)
        while (question := self._wait(answers)) is not None:
            self._ask(number, question, answers)
        answers.send()
        self.close()  # for the other threads

    def _wait(self, answers: "_Answers") -> Question | None:
        try:
            return self._questions.get_nowait()
        except Empty:  # also where another thread was faster: no answer stays here while this one waits
            answers.send()
            return self._questions.get()

    def _help(self, number: int) -> None:
        answers = _Answers(self._together)
        while (question := self._next(number)) is not None:
            self._ask(number, question, answers)
        answers.send()

    def _next(self, number: int) -> Question | None:
        """A helper's. It leaves under the lock, so that no question arrives behind its back."""
        with self._lock:
            with suppress(Empty):
                if (question := self._questions.get_nowait()) is not None:
                    return question
                self.close()  # for the other threads
            del self._threads[number], self._free_by[number]
            return None

    def _ask(self, number: int, question: Question, answers: "_Answers") -> None:
        now = time.monotonic()
        if answers.kept_since < now - LONGEST_KEPT.total_seconds():
            answers.send()
        self._free_by[number] = now + self._held_up_after
        question.ask()
        self._free_by[number] = math.inf
        answers.add(question)


class _Answers:
    """Those that a thread has, and the loop doesn't know of yet."""

    def __init__(self, together: int) -> None:
        self._together = together
        self._mailboxes: list[Mailbox] = []
        self.kept_since = math.inf
        """When the oldest of them was given."""

    def add(self, question: Question) -> None:
        if not self._mailboxes:
            self.kept_since = time.monotonic()
        self._mailboxes.append(question.mailbox)
        if len(self._mailboxes) == self._together:
            self.send()

    def send(self) -> None:
        for mailbox in set(self._mailboxes):
            mailbox.wake()
        self._mailboxes.clear()
        self.kept_since = math.inf


THREADS = 1
"""Threads that ask at once take Python's lock from each other with each row; four answer a third of what one can."""

HELPERS = 3
"""Threads that go on while all others are held up."""

HELD_UP_AFTER = timedelta(milliseconds=200)
"""Reads take well under a millisecond; the longest that need no disk take some ten. On a busy machine any thread may
stand still for 50 ms, and help that isn't needed makes all of them slower."""

TOGETHER = 4
"""Answers that wake the loop once. More would keep the first of them waiting, and save hardly anything."""

WRITERS = 2
"""A file has room for one writer at a time; while one waits for the disk, the next is ready."""

DEADLINE = timedelta(seconds=2)
"""Who looks at a notification tab has looked away by then."""

WAITING = 1_000
"""Questions on their way; at a millisecond each, who came behind them would be told of the deadline anyway."""

P = ParamSpec("P")
T = TypeVar("T")


class SqliteReader:
    """Starts its threads with the first question, so that it may be made before a fork."""

    def __init__(
        self,
        *,
        threads: int = THREADS,
        helpers: int = HELPERS,
        deadline: timedelta = DEADLINE,
        waiting: int = WAITING,
        held_up_after: timedelta = HELD_UP_AFTER,
        together: int = TOGETHER,
    ) -> None:
        self._line = ReaderThreads(threads, helpers, held_up_after, together)
        finalize(self, self._line.close)
        self._limit = InFlightLimit(most=waiting, deadline=deadline)
        self._mailboxes = Mailboxes()

    async def __call__(self, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The answer. Raises StoreUnavailable when it takes too long; then a write may still take effect.

        A question that was still waiting for a thread is never asked, and one that finds too many others is refused at
        once.
        """
        return await self._limit.run(1, self._answer, partial(ask, *args, **kwargs))

    async def _answer(self, ask: Callable[[], T]) -> T:
        question = Question(ask, self._mailboxes.current())
        self._line.append(question)
        try:
            answer: T = await question.answered
            return answer
        finally:
            del question  # an error keeps this frame, and the question keeps the error

    def close(self) -> None:
        """Waits for the answers that are on their way."""
        self._line.close()
        self._line.join()


class SqliteWriter(SqliteReader):
    """Threads for writes alone: those that wait for a locked file hold up no read."""

    def __init__(self, *, threads: int = WRITERS, deadline: timedelta = DEADLINE, waiting: int = WAITING) -> None:
        # Each answer goes at once: the next write may wait for the file until after this one's deadline.
        super().__init__(threads=threads, helpers=0, deadline=deadline, waiting=waiting, together=1)

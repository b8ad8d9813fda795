"""What other threads hand over to an event loop: it is woken once for many answers."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress


class Mailbox:
    """Calls that are to be made in an event loop's thread, in their order.

    To wake a loop costs a system call and a switch of threads, so whatever arrives until it runs comes with one waking.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._calls: deque[Callable[[], object]] = deque()
        self._woken = False

    def put(self, call: Callable[[], object]) -> None:
        """Any thread may. The call is made once the loop is woken."""
        self._calls.append(call)

    def wake(self) -> None:
        # After `put`: a loop that is woken already has yet to look into the mailbox, because it first says so.
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop has ended, and with it whoever waited
                self.loop.call_soon_threadsafe(self._empty)

    def _empty(self) -> None:
        self._woken = False
        while self._calls:
            self._calls.popleft()()


class Mailboxes:
    """The mailbox of the running event loop, for an adapter that outlives a loop."""

    def __init__(self) -> None:
        self._mailbox: Mailbox | None = None

    def current(self) -> Mailbox:
        loop = asyncio.get_running_loop()
        if self._mailbox is None or self._mailbox.loop is not loop:
            self._mailbox = Mailbox(loop)
        return self._mailbox

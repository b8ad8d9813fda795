"""Queue of calls from other threads to an event loop, with shared wake-ups."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress


class Mailbox:
    """Calls to run in an event loop's thread, in order.

    A wake-up costs a system call and a thread switch, so all calls that arrive before the loop runs share one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._calls: deque[Callable[[], object]] = deque()
        self._woken = False

    def put(self, call: Callable[[], object]) -> None:
        """Add a call, from any thread. It runs after the next wake-up."""
        self._calls.append(call)

    def wake(self) -> None:
        # Call it after `put`. `_empty` resets the flag before it reads the queue, so it still sees the new call.
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop has ended, and so have its waiting tasks
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

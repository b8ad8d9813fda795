"""Queue of calls that other threads send to an event loop, with shared wake-ups."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress


class Mailbox:
    """Calls to run in an event loop's thread, in order.

    Waking the loop costs a system call and a thread switch. All calls that are put before the loop runs share one
    wake-up.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._calls: deque[Callable[[], object]] = deque()
        self._woken = False

    def put(self, call: Callable[[], object]) -> None:
        """Add a call, from any thread. Call `wake` afterwards."""
        self._calls.append(call)

    def wake(self) -> None:
        """Make the loop run the calls that were put, from any thread."""
        # If the flag is still set, `_run_calls` has yet to read the queue, and will find the new call.
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop has ended, and so have its waiting tasks
                self.loop.call_soon_threadsafe(self._run_calls)

    def _run_calls(self) -> None:
        self._woken = False  # before the queue is read: a later `put` needs another wake-up
        while self._calls:
            self._calls.popleft()()


class RunningLoopMailbox:
    """Gives the mailbox of the event loop that is running, to an adapter that outlives event loops."""

    def __init__(self) -> None:
        self._mailbox: Mailbox | None = None

    def current(self) -> Mailbox:
        loop = asyncio.get_running_loop()
        if self._mailbox is None or self._mailbox.loop is not loop:
            self._mailbox = Mailbox(loop)
        return self._mailbox

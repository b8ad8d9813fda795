"""The hard limit: a worker that hangs in a slice ends itself, so that whoever runs it starts it anew."""

import logging
import os
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

SILENT_FOR = 90.0
"""Seconds. A slice that only takes long is handed back after 60 (the soft limit), and `up` ends a role that is silent
for 60, which its screen tells; this is for a worker that nobody watches."""

LOOKS_EVERY = 0.5
AWAY_FOR = 5.0
"""Seconds between two looks: then the process was stopped or the machine slept, and the worker had no more time."""

EXIT_CODE = 70
"""EX_SOFTWARE."""


class Watch:
    """Python's own threads must run: who holds the interpreter for ever is seen by `up` alone."""

    def __init__(self, beat: Callable[[], None], silent_for: float = SILENT_FOR) -> None:
        self._beat = beat
        self._silent_for = silent_for
        self._heard_at = 0.0

    def beat(self) -> None:
        self._heard_at = time.monotonic()
        self._beat()

    def start(self) -> None:
        self._heard_at = time.monotonic()
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def _watch(self) -> None:
        looked_at = time.monotonic()
        while True:
            time.sleep(LOOKS_EVERY)
            now = time.monotonic()
            if now > looked_at + AWAY_FOR:
                self._heard_at = now
            looked_at = now
            if now >= self._heard_at + self._silent_for:
                # In the middle of whatever it is: the claim runs out, and the ledger queues the slice again.
                log.critical("No progress for %g s: this process ends.", self._silent_for)
                os._exit(EXIT_CODE)

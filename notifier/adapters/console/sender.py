"""The console sender: a line for each window of alerts, for people to read and tests to count."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from errno import ENOSPC
from typing import BinaryIO

from notifier.domain.alert import Alert
from notifier.domain.errors import Full, Unavailable
from notifier.domain.subject import Member

NAMED = 3
"""Members named in a line; the rest is a number."""


@dataclass(frozen=True, slots=True)
class ConsoleSender:
    out: BinaryIO
    """Unbuffered: a line that was refused would wait in a buffer, and come out beside the one that repeats it."""

    def send(self, alert: Alert, members: Sequence[Member]) -> None:
        if not members:
            return
        line = {
            "alert": alert.text,
            "burst": str(alert.burst),
            "collapse_id": alert.collapse_id,
            "people": len(members),
            "first": list(members[:NAMED]),
        }
        try:
            self.out.write(json.dumps(line).encode() + b"\n")
        except OSError as error:
            raise (Full if error.errno == ENOSPC else Unavailable)(f"alerts: {error.strerror}.") from error

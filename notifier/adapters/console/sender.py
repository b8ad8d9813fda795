"""The console sender: a line for each window of alerts, for people to read and tests to count."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from errno import ENOSPC
from typing import TextIO

from notifier.domain.alert import Alert
from notifier.domain.errors import Full, Unavailable
from notifier.domain.subject import Member

NAMED = 3
"""Members named in a line; the rest is a number."""


@dataclass(frozen=True, slots=True)
class ConsoleSender:
    out: TextIO

    def send(self, alert: Alert, members: Sequence[Member]) -> None:
        line = {
            "alert": alert.text,
            "burst": str(alert.burst),
            "collapse_id": alert.collapse_id,
            "people": len(members),
            "first": list(members[:NAMED]),
        }
        try:
            print(json.dumps(line), file=self.out, flush=True)
        except OSError as error:
            raise (Full if error.errno == ENOSPC else Unavailable)(f"alerts: {error.strerror}.") from error

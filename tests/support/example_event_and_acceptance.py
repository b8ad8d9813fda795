"""Valid events as the tweet service sends them, accepted without HTTP."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from notifier.codec import read_event
from notifier.domain.upstream.validation import MENTIONED_TYPE
from notifier.flow.intake.gateway import IntakeReceipt
from notifier.wiring.intake import build_gateway
from notifier.wiring.shared_parts import System
from tests.support.fakes.clock_and_nonces import START


def event(
    id: str = "1", *, at: datetime = START, more: Mapping[str, object] | None = None, **data: Any
) -> dict[str, Any]:
    """Return a valid event in which ada mentions nova; `data` replaces or adds fields."""
    return {
        "specversion": "1.0",
        "id": id,
        "source": "//tweets",
        "type": MENTIONED_TYPE,
        "time": at.isoformat(),
        "data": {"tweet": f"t{id}", "author": "ada", "mentions": ["nova"], "text": "@nova hello", **data},
        **(more or {}),
    }


def accept(system: System, event: Mapping[str, object]) -> IntakeReceipt:
    """Accept the event as the API does, and return its receipt."""
    received = read_event(json.dumps(event).encode(), system.ports.clock.now())
    [receipt] = build_gateway(system).accept([received.event])
    return receipt

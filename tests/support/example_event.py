"""A good event, as the tweet service sends it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from notifier.domain.upstream.validation import EVENT_TYPE
from tests.support.fakes.clock import START


def event(
    id: str = "1", *, at: datetime = START, more: Mapping[str, object] | None = None, **data: Any
) -> dict[str, Any]:
    """A good event of ada, who mentions nova; `data` replaces or adds fields."""
    return {
        "specversion": "1.0",
        "id": id,
        "source": "//tweets",
        "type": EVENT_TYPE,
        "time": at.isoformat(),
        "data": {"tweet": f"t{id}", "author": "ada", "mentions": ["nova"], "text": "@nova hello", **data},
        **(more or {}),
    }

"""Bodies: one for all who read one language, no larger than a provider takes, whatever the names in it."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from notifier.domain.push.graphemes import shortened

MOST_BYTES = 4_096
"""Of Apple's payload, and of what Google counts of a message: keys and values, less than all of it."""


def compact(value: object) -> bytes:
    """UTF-8 as it is: a Chinese character takes three bytes, and six where it is escaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def fitting(text: str, around: Callable[[str], Mapping[str, Any]], most: int = MOST_BYTES) -> bytes:
    """What is around the text, with as much of it as there is room for."""
    return compact(around(shortened(text, most - len(compact(around(""))), _written)))


def _written(text: str) -> int:
    """Bytes between the quotation marks: a backslash takes two."""
    return len(compact(text)) - 2

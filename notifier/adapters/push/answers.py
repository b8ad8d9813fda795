"""Answers of providers as they come: JSON mostly, and from anybody who stands between."""

import json
from collections.abc import Mapping
from typing import Any

MOST_WORDS = 200
"""Characters of what a provider says for people; they go into records and logs."""


def read(body: bytes) -> Mapping[str, Any]:
    """Empty where it is no object."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):  # no UTF-8, no JSON, a number of a million digits, brackets of a million
        return {}
    return found if isinstance(found, dict) else {}


def name(value: object) -> str:
    """One of a provider's words; empty for what is none."""
    if isinstance(value, str) and len(value) < 64 and value.isascii() and value.replace("_", "").isalnum():
        return value
    return ""


def words(value: object) -> str:
    """What it says for people, fit for one line."""
    return " ".join(value.split())[:MOST_WORDS] if isinstance(value, str) and value.isprintable() else ""

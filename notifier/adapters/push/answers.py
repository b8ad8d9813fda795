"""Answers of providers as they come: JSON mostly, and from anybody who stands between."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any


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


def said(value: object, phrases: Collection[str]) -> Sequence[str]:
    """Which of these, in small letters, stand in what it says for people. Nothing else of that is kept: it goes into
    records and logs, and may repeat a token or an alert's text."""
    sentence = " ".join(value.split()).lower() if isinstance(value, str) else ""
    return [phrase for phrase in phrases if phrase in sentence]

"""Text encoding of account preferences for the stores, one text per field."""

from collections.abc import Callable, Mapping
from datetime import datetime, time
from typing import Any

from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.bursts.moderation import MentionsAllowed
from notifier.domain.users.account_preferences import (
    CHANGEABLE_FIELDS,
    AccountPreferences,
    AccountPreferencesChange,
)
from notifier.domain.users.quiet_hours import QuietHours
from notifier.domain.users.subject_preferences import ALWAYS, Volume

EncodedPreferences = tuple[tuple[str, str], ...]
"""Field names and encoded values of one member, sorted by field name."""


def encode_change(change: AccountPreferencesChange) -> Mapping[str, str]:
    return {field: _encode_value(value) for field in CHANGEABLE_FIELDS if (value := getattr(change, field)) is not None}


def decode_preferences(texts: Mapping[str, tuple[str, datetime]]) -> AccountPreferences:
    """Decode account preferences from each field's text and time of change.

    Fields that a newer version of this code wrote are ignored.
    """
    values = {field: _DECODERS[field](text) for field, (text, _) in texts.items() if field in _DECODERS}
    return AccountPreferences(at=max((at for _, at in texts.values()), default=ALWAYS), **values)


def _encode_value(value: object) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case datetime():
            return str(to_ms(value))
        case QuietHours():
            return f"{value.start:%H:%M}-{value.end:%H:%M}"
        case _:
            return str(value)


def _decode_quiet_hours(text: str) -> QuietHours:
    start, _, end = text.partition("-")
    return QuietHours(start=time.fromisoformat(start), end=time.fromisoformat(end))


def _decode_time(text: str) -> datetime:
    return from_ms(int(text))


_DECODERS: Mapping[str, Callable[[str], Any]] = {
    "volume": Volume,
    "visible_from": _decode_time,
    "default_from": _decode_time,
    "push": "on".__eq__,
    "quiet": _decode_quiet_hours,
    "zone": str,
    "digest_hour": int,
    "mentions": MentionsAllowed,
}

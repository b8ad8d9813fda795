"""What FCM takes for a message: the fields that it knows, their forms, and in which words it refuses others."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

MOST_BYTES = 4_096
LONGEST_TTL = timedelta(weeks=4)
TARGETS = ("token", "fid", "topic", "condition")
FIELDS: Mapping[str, tuple[str, ...]] = {
    "": ("message", "validate_only"),
    "message": ("name", "data", "notification", "android", "webpush", "apns", "fcm_options", *TARGETS),
    "message.notification": ("title", "body", "image"),
    "message.android": (
        *("collapse_key", "priority", "ttl", "restricted_package_name", "data", "notification", "fcm_options"),
        "direct_boot_ok",
    ),
    "message.android.notification": (
        *("title", "body", "icon", "color", "sound", "tag", "click_action", "channel_id", "ticker", "sticky"),
        *("event_time", "local_only", "notification_priority", "visibility", "notification_count", "image"),
    ),
}
TOKEN = re.compile(r"[\w-]{11,64}:[\w-]{32,512}|fixture-\d{1,18}", flags=re.ASCII)
"""Google's, and those of the fixture's people."""
FID = re.compile(r"[c-f][\w-]{21}", flags=re.ASCII)
"""22 characters of base64url, of which the first four bits are 0111."""
_TTL = re.compile(r"(\d{1,9})(?:\.\d{1,9})?s")


@dataclass(frozen=True, slots=True)
class Wrong:
    """A field, and what is wrong with it; without one Google says that it was the registration, or something else."""

    field: str
    said: str


@dataclass(frozen=True, slots=True)
class Message:
    """One that was taken."""

    target: str
    text: str
    tag: str
    collapse_key: str


def parsed(body: bytes) -> Message | Wrong:
    try:
        whole = json.loads(body)
    except ValueError:
        return Wrong("", "Invalid JSON payload received.")
    if not isinstance(whole, dict) or not isinstance(whole.get("message"), dict):
        return Wrong("message", "Recipient of the message is not set.")
    return next(_wrongs(whole), None) or _message(whole["message"])


def _wrongs(whole: Mapping[str, Any]) -> Iterator[Wrong]:
    """The first is answered."""
    for place, known in FIELDS.items():
        for name in _at(whole, place).keys() - set(known):
            said = f"Invalid JSON payload received. Unknown name \"{name}\" at '{place}': Cannot find field."
            yield Wrong(place, said)
    message, android = whole["message"], _at(whole, "message.android")
    if len([name for name in TARGETS if name in message]) != 1:
        yield Wrong("message", "Exactly one of fid, token, topic or condition is required.")
    for place, value in _texts(message):
        if not isinstance(value, str):
            yield Wrong(place, f"Invalid value at '{place}' (TYPE_STRING), {value}")
    ttl = _TTL.fullmatch(str(android.get("ttl", "0s")))
    if not ttl or timedelta(seconds=int(ttl[1])) > LONGEST_TTL:
        yield Wrong("message.android.ttl", "Invalid ttl duration.")
    if str(android.get("priority", "NORMAL")).upper() not in ("NORMAL", "HIGH"):
        yield Wrong("message.android.priority", "Invalid value at 'message.android.priority'.")
    # Google has no field for this one.
    if _counted(message) > MOST_BYTES:
        yield Wrong("", "Android message is too big")
    if "token" in message and not TOKEN.fullmatch(message["token"]):
        yield Wrong("", "The registration token is not a valid FCM registration token")
    if "fid" in message and not FID.fullmatch(message["fid"]):
        yield Wrong("message.fid", "Invalid Firebase installation ID.")


def _texts(message: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for name in TARGETS:
        yield f"message.{name}", message.get(name, "")
    yield from ((f"message.data[{name}]", value) for name, value in _at(message, "data").items())
    yield "message.notification.body", _at(message, "notification").get("body", "")
    yield "message.android.collapse_key", _at(message, "android").get("collapse_key", "")
    yield "message.android.notification.tag", _at(message, "android.notification").get("tag", "")


def _at(whole: Mapping[str, Any], place: str) -> dict[str, Any]:
    found: Any = whole
    for name in filter(None, place.split(".")):
        found = found.get(name, {}) if isinstance(found, dict) else {}
    return found if isinstance(found, dict) else {}


def _counted(message: Mapping[str, Any]) -> int:
    """Keys and values of what a phone gets."""
    pairs = [*_at(message, "data").items(), *_at(message, "notification").items()]
    pairs += _at(message, "android.notification").items()
    return sum(len(str(part).encode("utf-8", "replace")) for pair in pairs for part in pair)


def _message(message: Mapping[str, Any]) -> Message:
    android = _at(message, "android")
    [target] = [message[name] for name in TARGETS if name in message]
    return Message(
        target=target,
        text=_at(message, "notification").get("body", ""),
        tag=_at(android, "notification").get("tag", ""),
        collapse_key=android.get("collapse_key", ""),
    )

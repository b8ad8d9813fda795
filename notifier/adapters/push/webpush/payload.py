"""The content of an alert for a browser: what its service worker shows, and a length that tells nothing of it."""

from dataclasses import dataclass
from hashlib import blake2s

from notifier.adapters.push.payload import fitting
from notifier.domain.push.alert import Alert

STEP = 512
"""Bytes. Contents are filled up to a multiple: a push service, and whoever watches the line, sees that an alert is an
ordinary one, and not whose name is in it."""
MOST = 5 * STEP
"""Of all steps the last with which a body, 103 bytes longer, has at most 2,744: what Firefox on Android takes. Push
services have to take 4,096 (RFC 8030, 7.2). Two names of 256 characters fit in any alphabet, and none is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    text: bytes
    length: int
    """To be filled up to."""


def content(alert: Alert, language: str) -> Content:
    """JSON for `event.data.json()`: a title, and the tag by which an alert that comes again takes its own place."""
    text = fitting(
        alert.text_in(language), lambda shown: {"title": shown, "tag": alert.collapse_id, "lang": language}, most=MOST
    )
    return Content(text=text, length=-(-len(text) // STEP) * STEP)


def topic(alert: Alert) -> str:
    """What a push service replaces an alert by that it still holds: 32 characters, no more are allowed. Hexadecimal is
    base64url, whose length Apple checks, and has nothing but letters and digits, which is what Mozilla asks for.
    Hashed, so that a push service can't tell from it what a browser's tag was."""
    return blake2s(alert.collapse_id.encode(), digest_size=16, person=b"topic").hexdigest()

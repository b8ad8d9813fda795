"""Fake of FCM v1 and of Google's token endpoint: accepts and refuses requests like Google."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from notifier.devkit.fake_providers.behavior import ProviderScript, retry_after
from notifier.devkit.fake_providers.fake_devices import FakePhones
from notifier.devkit.fake_providers.oauth import TokenEndpoint
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.push import Post, Reply

# Validation of messages.

MAX_MESSAGE_BYTES = 4_096
MAX_TTL = timedelta(weeks=4)
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
"""Known fields by the path of their object. Objects that are not listed may have any field."""
TOKEN = re.compile(r"[\w-]{11,64}:[\w-]{32,512}|fixture-\d{1,18}", flags=re.ASCII)
"""Google's registration tokens, and those of the fixture's users."""
FID = re.compile(r"[c-f][\w-]{21}", flags=re.ASCII)
"""Firebase installation ids: 22 characters of base64url that start with the bits 0111."""
_TTL = re.compile(r"(\d{1,9})(?:\.\d{1,9})?s")


@dataclass(frozen=True, slots=True)
class FieldError:
    """Validation error. `field` is empty if Google's response does not name a field."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class FcmMessage:
    """A valid message."""

    target: str
    text: str
    tag: str
    collapse_key: str


def parse_message(body: bytes) -> FcmMessage | FieldError:
    try:
        payload = json.loads(body)
    except ValueError:
        return FieldError("", "Invalid JSON payload received.")
    if not isinstance(payload, dict) or not isinstance(payload.get("message"), dict):
        return FieldError("message", "Recipient of the message is not set.")
    return next(_field_errors(payload), None) or _build_message(payload["message"])


def _field_errors(payload: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the validation errors. The first one becomes the response."""
    for path, fields in FIELDS.items():
        for name in _section(payload, path).keys() - set(fields):
            error = f"Invalid JSON payload received. Unknown name \"{name}\" at '{path}': Cannot find field."
            yield FieldError(path, error)
    message, android = payload["message"], _section(payload, "message.android")
    if len([name for name in TARGETS if name in message]) != 1:
        yield FieldError("message", "Exactly one of fid, token, topic or condition is required.")
    for path, value in _string_fields(message):
        if not isinstance(value, str):
            yield FieldError(path, f"Invalid value at '{path}' (TYPE_STRING), {value}")
    ttl = _TTL.fullmatch(str(android.get("ttl", "0s")))
    if not ttl or timedelta(seconds=int(ttl[1])) > MAX_TTL:
        yield FieldError("message.android.ttl", "Invalid ttl duration.")
    if str(android.get("priority", "NORMAL")).upper() not in ("NORMAL", "HIGH"):
        yield FieldError("message.android.priority", "Invalid value at 'message.android.priority'.")
    if _size_in_bytes(message) > MAX_MESSAGE_BYTES:
        yield FieldError("", "Android message is too big")
    if "token" in message and not TOKEN.fullmatch(message["token"]):
        yield FieldError("", "The registration token is not a valid FCM registration token")
    if "fid" in message and not FID.fullmatch(message["fid"]):
        yield FieldError("message.fid", "Invalid Firebase installation ID.")


def _string_fields(message: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for name in TARGETS:
        yield f"message.{name}", message.get(name, "")
    yield from ((f"message.data[{name}]", value) for name, value in _section(message, "data").items())
    yield "message.notification.body", _section(message, "notification").get("body", "")
    yield "message.android.collapse_key", _section(message, "android").get("collapse_key", "")
    yield "message.android.notification.tag", _section(message, "android.notification").get("tag", "")


def _section(payload: Mapping[str, Any], path: str) -> dict[str, Any]:
    value: Any = payload
    for name in filter(None, path.split(".")):
        value = value.get(name, {}) if isinstance(value, dict) else {}
    return value if isinstance(value, dict) else {}


def _size_in_bytes(message: Mapping[str, Any]) -> int:
    pairs = [*_section(message, "data").items(), *_section(message, "notification").items()]
    pairs += _section(message, "android.notification").items()
    return sum(len(str(part).encode("utf-8", "replace")) for pair in pairs for part in pair)


def _build_message(message: Mapping[str, Any]) -> FcmMessage:
    android = _section(message, "android")
    [target] = [message[name] for name in TARGETS if name in message]
    return FcmMessage(
        target=target,
        text=_section(message, "notification").get("body", ""),
        tag=_section(android, "notification").get("tag", ""),
        collapse_key=android.get("collapse_key", ""),
    )


FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
_PATH = re.compile(r"/v1/projects/([^/]+)/messages:send")


@dataclass(frozen=True, slots=True, kw_only=True)
class FcmError:
    status: int
    code: str
    """Status code of google.rpc."""
    fcm_code: str = ""
    """Error code of FCM, if it differs."""
    message: str = ""
    field: str = ""
    retry_after: str | None = None


@dataclass(slots=True, kw_only=True)
class FakeFcm:
    project: str
    token_endpoint: TokenEndpoint
    clock: Clock
    script: ProviderScript = field(default_factory=ProviderScript)
    phones: FakePhones = field(default_factory=FakePhones)
    """Devices by registration token or installation id."""
    response_counts: Counter[str] = field(default_factory=Counter)
    """Number of responses to messages by error, or "Accepted"."""
    _removed: set[str] = field(default_factory=set)
    _started: datetime = field(init=False)

    def __post_init__(self) -> None:
        self._started = self.clock.now()

    def install(self, target: str) -> None:
        self._removed.discard(target)

    def uninstall(self, target: str) -> None:
        self._removed.add(target)

    def answer(self, post: Post) -> Reply:
        """Answer one request. Not thread-safe."""
        if post.path == urlsplit(self.token_endpoint.audience).path:
            return self.token_endpoint.answer(post, self.clock.now())
        outcome = self._outcome(post)
        if isinstance(outcome, FcmError):
            self.response_counts[outcome.fcm_code or outcome.code] += 1
            return _refusal(outcome)
        self.response_counts["Accepted"] += 1
        name = f"projects/{self.project}/messages/{self.phones.alert_count}"
        # Messages have no id from the sender, so the tag serves as the id. A message without a tag is never a repeat.
        self.phones.ring(outcome.target, collapse_id=outcome.tag or name, text=outcome.text, id=outcome.tag or name)
        return Reply(status=200, headers=_JSON, body=json.dumps({"name": name}).encode())

    def _outcome(self, post: Post) -> FcmMessage | FcmError:
        now = self.clock.now()
        uptime = now - self._started
        path = _PATH.fullmatch(post.path)
        if self.script.down.is_active(uptime):
            return FcmError(status=503, code="UNAVAILABLE", message="The service is currently unavailable.")
        if not path:
            return FcmError(status=404, code="NOT_FOUND", message="Requested entity was not found.")
        if not self.token_endpoint.is_valid(dict(post.headers).get("authorization", ""), now):
            message = "Request had invalid authentication credentials."
            return FcmError(status=401, code="UNAUTHENTICATED", message=message)
        if path[1] != self.project:
            message = "Permission 'cloudmessaging.messages.create' denied on resource."
            return FcmError(status=403, code="PERMISSION_DENIED", message=message)
        return self._check_message(parse_message(post.body), uptime)

    def _check_message(self, message: FcmMessage | FieldError, uptime: timedelta) -> FcmMessage | FcmError:
        if isinstance(message, FieldError):
            return FcmError(status=400, code="INVALID_ARGUMENT", message=message.message, field=message.field)
        if self.script.limited.is_active(uptime):
            seconds = retry_after(self.script.limited, uptime)
            return FcmError(status=429, code="RESOURCE_EXHAUSTED", fcm_code="QUOTA_EXCEEDED", retry_after=seconds)
        if self.script.belongs_elsewhere(message.target):
            return FcmError(
                status=403, code="PERMISSION_DENIED", fcm_code="SENDER_ID_MISMATCH", message="SenderId mismatch"
            )
        if message.target in self._removed or self.script.is_gone(message.target):
            return FcmError(
                status=404, code="NOT_FOUND", fcm_code="UNREGISTERED", message="Requested entity was not found."
            )
        return message


_JSON = {"content-type": "application/json; charset=UTF-8"}


def _refusal(fcm_error: FcmError) -> Reply:
    details: list[dict[str, object]] = []
    if fcm_error.field:
        violation = {"field": fcm_error.field, "description": fcm_error.message}
        details.append({"@type": BAD_REQUEST, "fieldViolations": [violation]})
    elif fcm_error.fcm_code or fcm_error.code == "INVALID_ARGUMENT":
        details.append({"@type": FCM_ERROR, "errorCode": fcm_error.fcm_code or fcm_error.code})
    error_body = {"code": fcm_error.status, "message": fcm_error.message, "status": fcm_error.code, "details": details}
    headers = dict(_JSON)
    if fcm_error.retry_after is not None:
        headers["retry-after"] = fcm_error.retry_after
    return Reply(status=fcm_error.status, headers=headers, body=json.dumps({"error": error_body}).encode())

"""Convert FCM responses to receipts.

Error codes are those of google.rpc and of FCM ("FCM error codes", as of 2026). That page documents no separate errors
for installation ids, so an installation id is treated like a token. Only known phrases of an error message are kept.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from notifier.adapters.push.request_rounds_and_replies import (
    error_code,
    known_phrases,
    parse_object,
    retry_after_time,
    soon_with_jitter,
)
from notifier.domain.push.receipt import Accepted, ConfigError, DropDevice, PayloadError, Receipt, RetryAt
from notifier.ports.push import Reply

QUOTA_RETRY_DELAY = timedelta(minutes=1)
"""Retry delay after a 429 without Retry-After."""
TARGET_FIELDS = {"message.token", "message.fid"}
"""Fields of a message that name its target, which is a device."""

FCM_ERROR_TYPE = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
BAD_REQUEST_TYPE = "type.googleapis.com/google.rpc.BadRequest"
QUOTA_FAILURE_TYPE = "type.googleapis.com/google.rpc.QuotaFailure"
"""Detail that tells which quota was exceeded: the project's, or that of one device."""
TARGET_PHRASES = ("registration token", "installation id")
"""Phrases of error messages that blame the target."""
KNOWN_FAULT_PHRASES = ("too big", "too large", "ttl", "collapse key", "unknown name", "invalid json")
"""Phrases of error messages that help to find an invalid field."""
_FIELD_PATTERN = re.compile(r"message(\.[a-z_]{1,40}){0,6}")
"""Path of a message field as Google writes it. Other text is dropped, because it may be content."""

INVALID_TARGETS: Mapping[str, str] = {
    "UNREGISTERED": "",
    "SENDER_ID_MISMATCH": "the token belongs to another project; if many do, the service account is the wrong one.",
}
"""Codes for which the device is dropped: it is gone, or this project may not send to it."""
CONFIGURATION_ERRORS: Mapping[str, str] = {
    "UNAUTHENTICATED": "Google rejects the access token, even a fresh one.",
    "PERMISSION_DENIED": "the service account may not send for this project, or the project's API is disabled.",
    "THIRD_PARTY_AUTH_ERROR": "the project's own key for APNs or Web Push is missing or wrong.",
    "NOT_FOUND": "the project does not exist.",
}
"""Codes caused by the sender's configuration and not by a device, with hints for the operator."""
DEVICE_GROUPS: Mapping[str, str] = {"THIRD_PARTY_AUTH_ERROR": "third-party"}
"""Codes that affect only a group of devices, with the name of the group.

Firebase needs keys of the project for Apple devices and browsers, but none for Android. A missing key for iPhones must
not stop the alerts of Android devices.
"""


def receipt_of(reply: Reply, now: datetime, random_number: float) -> Receipt:
    """Return the receipt for a response of FCM.

    An unexpected status probably comes from an intermediary: it gets a configuration error, which drops no device.
    """
    if reply.status == 200:
        return Accepted()
    parsed = parse_object(reply.body).get("error")
    error: Mapping[str, Any] = parsed if isinstance(parsed, dict) else {}
    code = _code(error) or f"status {reply.status}"
    if code in INVALID_TARGETS or (reply.status == 400 and _is_target_invalid(error)):
        return DropDevice(reason=": ".join(filter(None, (code, INVALID_TARGETS.get(code)))))
    if code in CONFIGURATION_ERRORS or reply.status in (401, 403, 404):
        reason = f"{code}: {CONFIGURATION_ERRORS.get(code, 'Google rejects the sender.')}"
        return ConfigError(reason=reason, device_group=DEVICE_GROUPS.get(code, ""))
    if reply.status == 429 or reply.status >= 500:
        default_time = now + QUOTA_RETRY_DELAY if reply.status == 429 else soon_with_jitter(now, random_number)
        is_device_quota = reply.status == 429 and _is_device_quota(error)
        return RetryAt(
            at=retry_after_time(reply.headers, now) or default_time, reason=code, is_device_only=is_device_quota
        )
    if reply.status in (400, 413):
        return PayloadError(reason=": ".join(filter(None, (code, _payload_fault(error)))))
    return ConfigError(reason=f"{code}: the response is not from Google, or its API has changed.")


def is_unauthenticated(reply: Reply) -> bool:
    """Return whether Google refused the access token, and not the project's key for another provider."""
    error = parse_object(reply.body).get("error")
    return reply.status == 401 and (_code(error) if isinstance(error, dict) else "") in ("UNAUTHENTICATED", "")


def _code(error: Mapping[str, Any]) -> str:
    fcm_codes = (error_code(detail.get("errorCode")) for detail in _details(error, FCM_ERROR_TYPE))
    return next(filter(None, fcm_codes), "") or error_code(error.get("status"))


def _is_target_invalid(error: Mapping[str, Any]) -> bool:
    """Return whether the target is the cause of an error with status 400.

    Usually Google names no invalid field, and sends only a text. In doubt the target is kept: a dead token costs one
    request. If an invalid alert dropped its targets, all their users would lose their alerts.
    """
    if fields := _fields(error):
        return all(isinstance(field, str) and field in TARGET_FIELDS for field in fields)
    return bool(known_phrases(error.get("message"), TARGET_PHRASES))


def _payload_fault(error: Mapping[str, Any]) -> str:
    fields = [field for field in _fields(error) if isinstance(field, str) and _FIELD_PATTERN.fullmatch(field)]
    return ", ".join([*fields, *known_phrases(error.get("message"), KNOWN_FAULT_PHRASES)])


def _fields(error: Mapping[str, Any]) -> list[object]:
    return [
        violation.get("field")
        for detail in _details(error, BAD_REQUEST_TYPE)
        for violation in _dicts(detail.get("fieldViolations"))
    ]


def _is_device_quota(error: Mapping[str, Any]) -> bool:
    """Return whether only the message rate of one device was exceeded."""
    violations = [
        violation for detail in _details(error, QUOTA_FAILURE_TYPE) for violation in _dicts(detail.get("violations"))
    ]
    return bool(violations) and all(
        known_phrases(violation.get("description"), ("device",)) or known_phrases(violation.get("subject"), ("device",))
        for violation in violations
    )


def _details(error: Mapping[str, Any], type_url: str) -> Iterator[Mapping[str, Any]]:
    return (detail for detail in _dicts(error.get("details")) if detail.get("@type") == type_url)


def _dicts(value: object) -> Iterator[Mapping[str, Any]]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())

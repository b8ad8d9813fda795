"""What Google answers, and what follows from it: a table. Of its sentences nothing is kept but phrases known here.

Its vocabulary is google.rpc's, with FCM's own words beside it ("FCM error codes", as of 2026). What an installation id
is answered, which came in 2026, isn't told apart there: it is taken for what a token is answered.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from notifier.adapters.push import requests as answers
from notifier.adapters.push.requests import as_asked, in_a_while
from notifier.domain.push.receipt import Accepted, ConfigError, DropToken, PayloadError, Receipt, RetryAt
from notifier.ports.push import Reply

QUOTA_REFILLS = timedelta(minutes=1)
"""Where a 429 names no time."""
TARGETS = {"message.token", "message.fid"}

FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
QUOTA_FAILURE = "type.googleapis.com/google.rpc.QuotaFailure"
"""Which quota it was: the project's, or that of one device."""
TARGETED = ("registration token", "installation id")
"""What a sentence is about that blames the target."""
MISTAKES = ("too big", "too large", "ttl", "collapse key", "unknown name", "invalid json")
"""What helps whoever looks for our mistake."""
_FIELD = re.compile(r"message(\.[a-z_]{1,40}){0,6}")
"""As Google names one of ours; anything else may be what was in it."""

DROPS: Mapping[str, str] = {
    "UNREGISTERED": "",
    "SENDER_ID_MISMATCH": "the token is another project's; many at once mean that the service account is.",
}
"""Nobody is there, or nobody whom this project may write to."""
CONFIGURES: Mapping[str, str] = {
    "UNAUTHENTICATED": "Google doesn't take our access token, nor a new one.",
    "PERMISSION_DENIED": "the service account may not send for this project, or its API is off.",
    "THIRD_PARTY_AUTH_ERROR": "the project's own key of APNs or Web Push is missing or wrong.",
    "NOT_FOUND": "there is no such project.",
}
"""Whoever it was for: no device is to blame. With what to look at."""
PARTS: Mapping[str, str] = {"THIRD_PARTY_AUTH_ERROR": "third-party"}
"""Firebase reaches Apple's devices and browsers by keys that the project has for them. Android needs none, and whoever
registers an iPhone's token must not stop everybody's alerts."""


def receipt_of(reply: Reply, now: datetime, chance: float) -> Receipt:
    """FCM's own word before google.rpc's, and that before the status; a status that Google has none of comes from
    somebody else."""
    if reply.status == 200:
        return Accepted()
    error = answers.read(reply.body).get("error")
    said: Mapping[str, Any] = error if isinstance(error, dict) else {}
    code = _code(said) or f"status {reply.status}"
    if code in DROPS or (reply.status == 400 and _blames_the_target(said)):
        return DropToken(reason=": ".join(filter(None, (code, DROPS.get(code)))))
    if code in CONFIGURES or reply.status in (401, 403, 404):
        reason = f"{code}: {CONFIGURES.get(code, 'Google refuses who sends.')}"
        return ConfigError(reason=reason, part=PARTS.get(code, ""))
    if reply.status == 429 or reply.status >= 500:
        unasked = now + QUOTA_REFILLS if reply.status == 429 else in_a_while(now, chance)
        alone = reply.status == 429 and _of_a_device(said)
        return RetryAt(at=as_asked(reply.headers, now) or unasked, reason=code, alone=alone)
    if reply.status in (400, 413):
        return PayloadError(reason=": ".join(filter(None, (code, _mistake(said)))))
    return ConfigError(reason=f"{code}: this isn't Google that answers, or not as it used to.")


def is_unauthenticated(reply: Reply) -> bool:
    """Our access token, and not the key that the project has for another provider."""
    error = answers.read(reply.body).get("error")
    return reply.status == 401 and (_code(error) if isinstance(error, dict) else "") in ("UNAUTHENTICATED", "")


def _code(error: Mapping[str, Any]) -> str:
    own = (answers.name(detail.get("errorCode")) for detail in _details(error, FCM_ERROR))
    return next(filter(None, own), "") or answers.name(error.get("status"))


def _blames_the_target(error: Mapping[str, Any]) -> bool:
    """One field that is said to be wrong, or, as Google answers most of the time, no field and a sentence.

    A message that is too big has no field either, so the sentence decides: a token that is kept for too long costs a
    request, one that is thrown away for our mistake costs everybody's alerts.
    """
    if fields := _fields(error):
        return all(isinstance(field, str) and field in TARGETS for field in fields)
    return bool(answers.said(error.get("message"), TARGETED))


def _mistake(error: Mapping[str, Any]) -> str:
    named = [field for field in _fields(error) if isinstance(field, str) and _FIELD.fullmatch(field)]
    return ", ".join([*named, *answers.said(error.get("message"), MISTAKES)])


def _fields(error: Mapping[str, Any]) -> list[object]:
    return [each.get("field") for of in _details(error, BAD_REQUEST) for each in _dicts(of.get("fieldViolations"))]


def _of_a_device(error: Mapping[str, Any]) -> bool:
    """Its message rate was too high, and everybody else's isn't: where a violation says so, and none says another."""
    violations = [each for of in _details(error, QUOTA_FAILURE) for each in _dicts(of.get("violations"))]
    return bool(violations) and all(
        answers.said(each.get("description"), ("device",)) or answers.said(each.get("subject"), ("device",))
        for each in violations
    )


def _details(error: Mapping[str, Any], kind: str) -> Iterator[Mapping[str, Any]]:
    return (detail for detail in _dicts(error.get("details")) if detail.get("@type") == kind)


def _dicts(found: object) -> Iterator[Mapping[str, Any]]:
    return (one for one in found if isinstance(one, dict)) if isinstance(found, list) else iter(())

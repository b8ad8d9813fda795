"""A fake of FCM v1 and of the token endpoint beside it: takes what Google takes, and refuses in Google's words."""

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from notifier.devkit.fake_providers.behaviour import Script, retry_after
from notifier.devkit.fake_providers.devices import Phones
from notifier.devkit.fake_providers.fcm_messages import Message, Wrong, parsed
from notifier.devkit.fake_providers.oauth import Grants
from notifier.ports.clock import Clock
from notifier.ports.push import Post, Reply

FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
_PATH = re.compile(r"/v1/projects/([^/]+)/messages:send")


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    status: int
    code: str
    """google.rpc's."""
    own: str = ""
    """FCM's, where it has another word."""
    said: str = ""
    field: str = ""
    retry_after: str | None = None


@dataclass(slots=True, kw_only=True)
class FakeFcm:
    project: str
    grants: Grants
    clock: Clock
    script: Script = field(default_factory=Script)
    phones: Phones = field(default_factory=Phones)
    """By token, or by installation."""
    answered: Counter[str] = field(default_factory=Counter)
    """By error, and "Accepted"; tokens that were given don't count."""
    _removed: set[str] = field(default_factory=set)
    _began: datetime = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock.now()

    def install(self, target: str) -> None:
        self._removed.discard(target)

    def uninstall(self, target: str) -> None:
        self._removed.add(target)

    def answer(self, post: Post) -> Reply:
        """One request after another."""
        if post.path == urlsplit(self.grants.audience).path:
            return self.grants.answer(post, self.clock.now())
        outcome = self._outcome(post)
        if isinstance(outcome, Complaint):
            self.answered[outcome.own or outcome.code] += 1
            return _refusal(outcome)
        self.answered["Accepted"] += 1
        name = f"projects/{self.project}/messages/{self.phones.rang}"
        # A message has no id of its sender's. Without a tag each stands for itself.
        self.phones.ring(outcome.target, place=outcome.tag or name, text=outcome.text, id=outcome.tag or name)
        return Reply(status=200, headers=_JSON, body=json.dumps({"name": name}).encode())

    def _outcome(self, post: Post) -> Message | Complaint:
        now = self.clock.now()
        since = now - self._began
        path = _PATH.fullmatch(post.path)
        if self.script.down.holds(since):
            return Complaint(status=503, code="UNAVAILABLE", said="The service is currently unavailable.")
        if not path:
            return Complaint(status=404, code="NOT_FOUND", said="Requested entity was not found.")
        if not self.grants.takes(dict(post.headers).get("authorization", ""), now):
            said = "Request had invalid authentication credentials."
            return Complaint(status=401, code="UNAUTHENTICATED", said=said)
        if path[1] != self.project:
            said = "Permission 'cloudmessaging.messages.create' denied on resource."
            return Complaint(status=403, code="PERMISSION_DENIED", said=said)
        return self._judged(parsed(post.body), since)

    def _judged(self, message: Message | Wrong, since: timedelta) -> Message | Complaint:
        if isinstance(message, Wrong):
            return Complaint(status=400, code="INVALID_ARGUMENT", said=message.said, field=message.field)
        if self.script.limited.holds(since):
            left = retry_after(self.script.limited, since)
            return Complaint(status=429, code="RESOURCE_EXHAUSTED", own="QUOTA_EXCEEDED", retry_after=left)
        if self.script.is_elsewhere(message.target):
            return Complaint(status=403, code="PERMISSION_DENIED", own="SENDER_ID_MISMATCH", said="SenderId mismatch")
        if message.target in self._removed or self.script.is_gone(message.target):
            return Complaint(status=404, code="NOT_FOUND", own="UNREGISTERED", said="Requested entity was not found.")
        return message


_JSON = {"content-type": "application/json; charset=UTF-8"}


def _refusal(complaint: Complaint) -> Reply:
    details: list[dict[str, object]] = []
    if complaint.field:
        violation = {"field": complaint.field, "description": complaint.said}
        details.append({"@type": BAD_REQUEST, "fieldViolations": [violation]})
    elif complaint.own or complaint.code == "INVALID_ARGUMENT":
        details.append({"@type": FCM_ERROR, "errorCode": complaint.own or complaint.code})
    error = {"code": complaint.status, "message": complaint.said, "status": complaint.code, "details": details}
    headers = dict(_JSON)
    if complaint.retry_after is not None:
        headers["retry-after"] = complaint.retry_after
    return Reply(status=complaint.status, headers=headers, body=json.dumps({"error": error}).encode())

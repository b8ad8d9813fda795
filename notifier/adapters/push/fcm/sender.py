"""Sender of alerts to Android and all other Firebase devices through FCM."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from notifier.adapters.push.fcm.responses import is_unauthenticated, receipt_of
from notifier.adapters.push.fcm.service_account import ServiceAccount
from notifier.adapters.push.request_rounds_and_replies import (
    DeviceReceipt,
    PushRequest,
    RandomSource,
    receipt_without_reply,
    send_requests,
    shortened_to_fit,
)
from notifier.domain.push.alert import Alert
from notifier.domain.push.device import Device, FirebaseInstallation, FirebaseToken
from notifier.domain.push.receipt import Receipt
from notifier.domain.push.translations import language_of
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.push import NoReply, Reply, Transport

ORIGIN = "https://fcm.googleapis.com:443"
MAX_COLLAPSE_KEYS = 4
"""Number of collapse keys that Google stores for a device. A fifth key would displace an arbitrary one."""
_MESSAGE_START = b'{"message":{'
"""Beginning of a message; the target of each request follows."""


class TokenTransport(Transport, Protocol):
    """Transport with a source of access tokens."""

    @property
    def account(self) -> ServiceAccount: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def random(self) -> RandomSource: ...

    def ensure_token(self) -> Receipt | None:
        """Ensure that there is a token; call before building requests.

        If no token is available, return the receipt for all requests.
        """
        ...

    def current_token(self) -> str: ...

    def forget(self, token: str) -> None:
        """Record that Google refused the token: `ensure_token` then fetches a new one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FcmSender:
    """Sends alerts to Firebase devices through FCM."""

    transport: TokenTransport
    origin: str = ORIGIN

    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[DeviceReceipt]:
        return send_requests(self.transport, _FcmRequests(sender=self, alert=alert), devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FcmRequests:
    sender: FcmSender
    alert: Alert
    bodies: dict[str, bytes] = field(default_factory=dict)
    """Message bodies by language, without the target."""

    def prepare(self) -> Receipt | None:
        return self.sender.transport.ensure_token()

    def build(self, device: Device) -> PushRequest | Receipt:
        bearer = self.sender.transport.current_token()
        return PushRequest(
            origin=self.sender.origin,
            path=f"/v1/projects/{self.sender.transport.account.project}/messages:send",
            headers=(("authorization", f"Bearer {bearer}"), ("content-type", "application/json")),
            body=b"".join((_MESSAGE_START, _target(device), b",", self._body(language_of(device.locale)))),
            device=device,
            bearer=bearer,
        )

    def replace_refused_token(self, request: PushRequest, answer: Reply | NoReply) -> bool:
        if isinstance(answer, Reply) and is_unauthenticated(answer):
            self.sender.transport.forget(request.bearer)
            return True
        return False

    def receipt(self, request: PushRequest, answer: Reply | NoReply) -> Receipt:
        now, random_number = self.sender.transport.clock.now(), self.sender.transport.random()
        return (
            receipt_without_reply(answer, now, random_number)
            if isinstance(answer, NoReply)
            else receipt_of(answer, now, random_number)
        )

    def _body(self, language: str) -> bytes:
        if language not in self.bodies:
            body = message(self.alert, language, self.sender.transport.clock.now())
            self.bodies[language] = body.removeprefix(_MESSAGE_START)
        return self.bodies[language]


def message(alert: Alert, language: str, now: datetime) -> bytes:
    """Return the message without a target.

    Ordinary alerts have no collapse key, because Google accepts 20 collapsible messages in a row, then one every three
    minutes. Summaries have one: a summary may replace an earlier one that the phone has not received.
    """
    collapse_key = (
        {"collapse_key": f"away-{int(alert.collapse_id, 16) % MAX_COLLAPSE_KEYS}"} if alert.is_summary else {}
    )
    android = {
        "priority": "HIGH" if alert.is_urgent else "NORMAL",
        # 0 for an expired alert: FCM tries once and stores nothing.
        "ttl": f"{max(0, int((alert.expires_at - now).total_seconds()))}s",
        **collapse_key,
        "notification": {"tag": alert.collapse_id},
    }

    def wrap(text: str) -> Mapping[str, object]:
        return {"message": {"notification": {"body": text}, "android": android}}

    return shortened_to_fit(alert.text_in(language), wrap)


def _target(device: Device) -> bytes:
    """Return the target of a message as a JSON member, either `token` or `fid`."""
    match device.address:
        case FirebaseToken(token=token):
            return b'"token":' + json.dumps(token).encode()
        case FirebaseInstallation(fid=fid):
            return b'"fid":' + json.dumps(fid).encode()
        case address:
            raise TypeError(f"not a Firebase device: {type(address).__name__}")

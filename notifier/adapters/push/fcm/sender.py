"""FCM: alerts for Android, and for whatever else an app reaches by Firebase."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from notifier.adapters.push.fcm.responses import is_unauthenticated, receipt_of
from notifier.adapters.push.fcm.service_account import ServiceAccount
from notifier.adapters.push.requests import Chance, DeviceReceipt, PushRequest, fitting, of_silence, send_requests
from notifier.domain.push.alert import Alert
from notifier.domain.push.device import Device, FirebaseInstallation, FirebaseToken
from notifier.domain.push.receipt import Receipt
from notifier.domain.push.translations import language_of
from notifier.ports.coordination import Clock
from notifier.ports.push import Reply, Silence, Transport

ORIGIN = "https://fcm.googleapis.com:443"
COLLAPSE_KEYS = 4
"""As many as Google keeps for a device; with a fifth it throws away any."""
_HEAD = b'{"message":{'
"""Followed by the target of each request."""


class TokenTransport(Transport, Protocol):
    """The transport and the access token of requests: ours, or those of firebase-admin."""

    @property
    def account(self) -> ServiceAccount: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def chance(self) -> Chance: ...

    def ensure(self) -> Receipt | None:
        """Call before building requests. A receipt stands for all of them: no token can be had."""
        ...

    def current(self) -> str: ...

    def forget(self, token: str) -> None:
        """Google takes it no more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FcmSender:
    """A Provider; the devices that it is given are Firebase's."""

    tokens: TokenTransport
    """And the transport with them."""
    origin: str = ORIGIN

    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[DeviceReceipt]:
        return send_requests(self.tokens, _FcmRequests(fcm=self, alert=alert), devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FcmRequests:
    """A RequestBuilder."""

    fcm: FcmSender
    alert: Alert
    bodies: dict[str, bytes] = field(default_factory=dict)
    """By language, without whom it is for."""

    def prepare(self) -> Receipt | None:
        return self.fcm.tokens.ensure()

    def build(self, device: Device) -> PushRequest | Receipt:
        bearer = self.fcm.tokens.current()
        return PushRequest(
            origin=self.fcm.origin,
            path=f"/v1/projects/{self.fcm.tokens.account.project}/messages:send",
            headers=(("authorization", f"Bearer {bearer}"), ("content-type", "application/json")),
            body=b"".join((_HEAD, _target(device), b",", self._body(language_of(device.locale)))),
            device=device,
            bearer=bearer,
        )

    def is_token_refused(self, request: PushRequest, answer: Reply | Silence) -> bool:
        if isinstance(answer, Reply) and is_unauthenticated(answer):
            self.fcm.tokens.forget(request.bearer)
            return True
        return False

    def receipt(self, request: PushRequest, answer: Reply | Silence) -> Receipt:
        now, chance = self.fcm.tokens.clock.now(), self.fcm.tokens.chance()
        return of_silence(answer, now, chance) if isinstance(answer, Silence) else receipt_of(answer, now, chance)

    def _body(self, language: str) -> bytes:
        if language not in self.bodies:
            whole = message(self.alert, language, self.fcm.tokens.clock.now())
            self.bodies[language] = whole.removeprefix(_HEAD)
        return self.bodies[language]


def message(alert: Alert, language: str, now: datetime) -> bytes:
    """For nobody yet.

    Ordinary alerts have no collapse key: Google takes 20 such in a row and one in three minutes then, and keeps four
    keys. They have the alert's tag, so that one that is sent again replaces itself on the phone, and no other. A
    summary may replace another that the phone was not there for: it has one of four keys, by its subject.
    """
    keyed = {"collapse_key": f"away-{int(alert.collapse_id, 16) % COLLAPSE_KEYS}"} if alert.summary else {}
    android = {
        "priority": "HIGH" if alert.urgent else "NORMAL",
        # What is over isn't kept: one try, now.
        "ttl": f"{max(0, int((alert.expires_at - now).total_seconds()))}s",
        **keyed,
        "notification": {"tag": alert.collapse_id},
    }

    def around(text: str) -> Mapping[str, object]:
        return {"message": {"notification": {"body": text}, "android": android}}

    return fitting(alert.text_in(language), around)


def _target(device: Device) -> bytes:
    """A member of JSON. `fid` is a field of its own beside `token`, one of which a message has; what Google's reference
    doesn't say is whether anything else differs, so nothing else does here."""
    match device.address:
        case FirebaseToken(token=token):
            return b'"token":' + json.dumps(token).encode()
        case FirebaseInstallation(fid=fid):
            return b'"fid":' + json.dumps(fid).encode()
        case other:
            raise TypeError(f"no device of Firebase: {type(other).__name__}")

"""Sender of alerts to Apple devices through APNs."""

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import blake2s

from notifier.adapters.push.apns.provider_token import ProviderTokens
from notifier.adapters.push.apns.responses import is_token_expired, receipt_of
from notifier.adapters.push.request_rounds_and_replies import (
    DeviceReceipt,
    PushRequest,
    RandomSource,
    receipt_without_reply,
    send_requests,
    shortened_to_fit,
)
from notifier.domain.push.alert import Alert
from notifier.domain.push.device import ApnsEnvironment, AppleToken, Device, DeviceId
from notifier.domain.push.receipt import Accepted, DropDevice, Receipt
from notifier.domain.push.translations import language_of
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.push import NoReply, Reply, Transport

# Suspect devices: their address may be wrong. Apple throttles a connection that brings wrong addresses, so suspects
# have a separate connection.

SUSPECT_AGE = timedelta(hours=1)
"""Age up to which a registration is suspect.

The response to the first alert shows whether an address belongs to the other environment or to another app. Most active
users get an alert within this time. Apps register at each start, so a longer time would make too many devices suspect.
"""
MAX_REMEMBERED_DEVICES = 65_536
"""Maximum number of devices whose last response is remembered, some 10 MB.

A suspect that is forgotten may use a connection of unsuspected devices once.
"""


@dataclass(slots=True)
class SuspectDevices:
    """Decides which devices are suspect, by their age and the responses that this process received.

    Suspicion only decides which connection a request uses.
    """

    capacity: int = MAX_REMEMBERED_DEVICES
    _acceptance_by_device: "OrderedDict[DeviceId, bool]" = field(default_factory=OrderedDict)
    """Whether the last recorded response accepted the device, by device id."""

    def is_suspect(self, device: Device, now: datetime) -> bool:
        accepted = self._was_accepted(device)
        return now - device.registered_at < SUSPECT_AGE if accepted is None else not accepted

    def record(self, device: Device, receipt: Receipt, now: datetime) -> None:
        """Record a drop, or the acceptance of a device that is or was suspect."""
        match receipt:
            case Accepted() if now - device.registered_at < SUSPECT_AGE or self._was_accepted(device) is not None:
                self._remember(device.id, True)
            case DropDevice():
                self._remember(device.id, False)
            case _:
                pass

    def _was_accepted(self, device: Device) -> bool | None:
        # If nothing is recorded, skip computing the id, which is a hash.
        return self._acceptance_by_device.get(device.id) if self._acceptance_by_device else None

    def _remember(self, device: DeviceId, accepted: bool) -> None:
        self._acceptance_by_device[device] = accepted
        self._acceptance_by_device.move_to_end(device)
        if len(self._acceptance_by_device) > self.capacity:
            self._acceptance_by_device.popitem(last=False)


ORIGINS: Mapping[ApnsEnvironment, str] = {
    ApnsEnvironment.PRODUCTION: "https://api.push.apple.com:443",
    ApnsEnvironment.SANDBOX: "https://api.sandbox.push.apple.com:443",
}
PRIORITY_IMMEDIATE, PRIORITY_POWER_SAVING = "10", "5"
MAX_COLLAPSE_ID_BYTES = 64
_TOKEN_PATTERN = re.compile(r"(?:[0-9A-Fa-f]{2}){1,100}")
"""Device token in hexadecimal, safe in a path. Apple's tokens have 32 bytes today, and may grow to 100."""
_TOPIC_PATTERN = re.compile(r"[A-Za-z0-9.-]{1,155}")
"""App topic, safe in a header. The maximum length is that of a bundle id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApnsSender:
    """Sends alerts to Apple devices through APNs."""

    transport: Transport
    tokens: ProviderTokens
    clock: Clock
    random: RandomSource
    topics: frozenset[str] = frozenset()
    """Apps that the key may send to; empty allows any.

    Clients may register any topic. Apple's response for a foreign app is a configuration error, as for a wrong key.
    Without this check, one device registered for a foreign app could stop all alerts.
    """
    origins: Mapping[ApnsEnvironment, str] = field(default_factory=lambda: ORIGINS)
    suspects: SuspectDevices = field(default_factory=SuspectDevices)

    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[DeviceReceipt]:
        return send_requests(
            self.transport, _ApnsRequests(sender=self, alert=alert, headers=_headers(alert, self.clock.now())), devices
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ApnsRequests:
    sender: ApnsSender
    alert: Alert
    headers: tuple[tuple[str, str], ...]
    bodies: dict[str, bytes] = field(default_factory=dict)
    """Payloads by language."""

    def prepare(self) -> Receipt | None:
        # Nothing to fetch: the provider token is signed locally.
        return None

    def build(self, device: Device) -> PushRequest | Receipt:
        address = device.address
        if not isinstance(address, AppleToken):
            raise TypeError(f"not an Apple device: {type(address).__name__}")
        # Never send an invalid token or topic: both become part of the request unescaped.
        if not _TOKEN_PATTERN.fullmatch(address.token) or not _TOPIC_PATTERN.fullmatch(address.topic):
            return DropDevice(reason="BadDeviceToken")
        if self.sender.topics and address.topic not in self.sender.topics:
            return DropDevice(reason="TopicDisallowed")
        now = self.sender.clock.now()
        bearer = self.sender.tokens.current(now)
        return PushRequest(
            origin=self.sender.origins[address.environment],
            path=f"/3/device/{address.token}",
            headers=(
                *self.headers,
                ("authorization", f"bearer {bearer}"),
                ("apns-topic", address.topic),
                ("apns-id", notification_id(self.alert, device.id)),
            ),
            body=self._body(language_of(device.locale)),
            needs_own_connection=self.sender.suspects.is_suspect(device, now),
            device=device,
            bearer=bearer,
        )

    def replace_refused_token(self, request: PushRequest, answer: Reply | NoReply) -> bool:
        return (
            isinstance(answer, Reply)
            and is_token_expired(answer)
            and self.sender.tokens.renew(request.bearer, self.sender.clock.now())
        )

    def receipt(self, request: PushRequest, answer: Reply | NoReply) -> Receipt:
        now = self.sender.clock.now()
        if isinstance(answer, NoReply):
            return receipt_without_reply(answer, now, self.sender.random())
        receipt = receipt_of(answer, now, self.sender.random())
        self.sender.suspects.record(request.device, receipt, now)
        return receipt

    def _body(self, language: str) -> bytes:
        if language not in self.bodies:
            self.bodies[language] = payload(self.alert, language)
        return self.bodies[language]


def payload(alert: Alert, language: str) -> bytes:
    """Return the payload in a language, without a badge.

    A sender to millions does not know each user's badge number, and a wrong number stays on the screen.
    """

    def wrap(text: str) -> Mapping[str, object]:
        sound = {"sound": "default"} if alert.is_urgent else {}
        return {"aps": {"alert": {"body": text}, **sound}}

    return shortened_to_fit(alert.text_in(language), wrap)


def notification_id(alert: Alert, device: DeviceId) -> str:
    """Return a UUID derived from the alert and the device only, so that all retries in all processes send the same id.

    Its version is 5 (name-based), although the hash is BLAKE2s instead of SHA-1.
    """
    digest = blake2s(device.encode(), key=alert.id.encode(), digest_size=16).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-a{digest[17:20]}-{digest[20:]}"


def _headers(alert: Alert, now: datetime) -> tuple[tuple[str, str], ...]:
    assert len(alert.collapse_id.encode()) <= MAX_COLLAPSE_ID_BYTES
    return (
        ("apns-push-type", "alert"),
        ("apns-priority", PRIORITY_IMMEDIATE if alert.is_urgent else PRIORITY_POWER_SAVING),
        # 0: APNs tries once and stores nothing.
        ("apns-expiration", str(int(alert.expires_at.timestamp())) if now < alert.expires_at else "0"),
        ("apns-collapse-id", alert.collapse_id),
    )

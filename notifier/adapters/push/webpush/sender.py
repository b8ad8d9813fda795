"""Sender of alerts to browsers through Web Push, encrypted for each browser."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from notifier.adapters.push.request_rounds_and_replies import (
    DeviceReceipt,
    PushRequest,
    RandomSource,
    receipt_without_reply,
    send_requests,
)
from notifier.adapters.push.webpush.encrypted_message import (
    SALT_BYTES,
    MessageKeyPair,
    WebPushContent,
    build_content,
    build_topic,
    encrypt,
)
from notifier.adapters.push.webpush.responses import receipt_of
from notifier.adapters.push.webpush.vapid import KeyReputation, Vapid
from notifier.domain.push.alert import Alert
from notifier.domain.push.device import Device, WebSubscription
from notifier.domain.push.device_validation import PushServices
from notifier.domain.push.receipt import DropDevice, Receipt
from notifier.domain.push.translations import language_of
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.push import NoReply, Reply, Transport

MAX_TTL = timedelta(days=30)
"""Maximum TTL: Mozilla's limit. No push service stores a message for longer."""
URGENCY_IMMEDIATE, URGENCY_DEFERRABLE = "high", "normal"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPushSender:
    """Sends alerts to browsers through their push services.

    The `transport` must only use addresses from a guarded resolver, and must not follow redirects.
    """

    transport: Transport
    vapid: Vapid
    services: PushServices
    clock: Clock
    random: RandomSource
    new_key_pair: Callable[[], MessageKeyPair] = MessageKeyPair.new
    random_bytes: Callable[[int], bytes] = os.urandom
    reputation: KeyReputation = field(default_factory=KeyReputation)

    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[DeviceReceipt]:
        return send_requests(
            self.transport, _WebPushRequests(sender=self, alert=alert, headers=_common_headers(alert)), devices
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _WebPushRequests:
    sender: WebPushSender
    alert: Alert
    headers: tuple[tuple[str, str], ...]
    contents: dict[str, WebPushContent] = field(default_factory=dict)
    """Contents by language."""

    def prepare(self) -> Receipt | None:
        # Nothing to fetch: tokens are signed locally.
        return None

    def build(self, device: Device) -> PushRequest | Receipt:
        subscription = device.address
        if not isinstance(subscription, WebSubscription):
            raise TypeError(f"not a browser device: {type(subscription).__name__}")
        content = self._content(language_of(device.locale))
        try:
            endpoint = self.sender.services.endpoint(subscription.endpoint)
            body = self._encrypted(content, subscription)
        except ValueError as error:
            return DropDevice(reason=f"the subscription is unusable: {error}")
        now = self.sender.clock.now()
        authorization = self.sender.vapid.authorization(endpoint.origin, now)
        headers = (*self.headers, ("ttl", _seconds(self.alert.expires_at - now)), ("authorization", authorization))
        return PushRequest(
            origin=endpoint.origin_with_port,
            path=endpoint.path,
            headers=headers,
            body=body,
            device=device,
            bearer=authorization,
        )

    def replace_refused_token(self, request: PushRequest, answer: Reply | NoReply) -> bool:
        # A new token cannot help: each token is valid for hours when it is sent.
        return False

    def receipt(self, request: PushRequest, answer: Reply | NoReply) -> Receipt:
        now, random_number = self.sender.clock.now(), self.sender.random()
        if isinstance(answer, NoReply):
            return receipt_without_reply(answer, now, random_number)
        return receipt_of(answer, request.origin, self.sender.reputation, now, random_number)

    def _content(self, language: str) -> WebPushContent:
        if language not in self.contents:
            self.contents[language] = build_content(self.alert, language)
        return self.contents[language]

    def _encrypted(self, content: WebPushContent, subscription: WebSubscription) -> bytes:
        pair, salt = self.sender.new_key_pair(), self.sender.random_bytes(SALT_BYTES)
        return encrypt(
            content.json,
            padded_length=content.padded_length,
            key=subscription.key,
            secret=subscription.secret,
            pair=pair,
            salt=salt,
        )


def _common_headers(alert: Alert) -> tuple[tuple[str, str], ...]:
    return (
        ("content-encoding", "aes128gcm"),
        ("content-type", "application/octet-stream"),
        ("topic", build_topic(alert)),
        ("urgency", URGENCY_IMMEDIATE if alert.is_urgent else URGENCY_DEFERRABLE),
    )


def _seconds(remaining: timedelta) -> str:
    """Return the TTL in seconds. 0 for an expired alert: the push service tries once and stores nothing."""
    return str(int(max(timedelta(0), min(remaining, MAX_TTL)).total_seconds()))

"""One alert to many devices, one request each; requests refused because of our own token are sent twice."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import chain
from typing import Any, Protocol

from notifier.domain.push.device import Device
from notifier.domain.push.receipt import Receipt, RetryAt, Unknown
from notifier.domain.push.send_log import BACKOFF
from notifier.domain.push.translations import shortened
from notifier.ports.push import Post, Reply, Silence, Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRequest(Post):
    device: Device
    bearer: str
    """Our token that the request carries."""


class RequestBuilder(Protocol):
    """Builds the requests of one alert, and reads the answers."""

    def prepare(self) -> Receipt | None:
        """Call before a round; may fetch a token, and block. A receipt stands for all devices: nothing can be sent."""
        ...

    def build(self, device: Device) -> PushRequest | Receipt:
        """Return the request, or the receipt of a device to which nothing is sent."""
        ...

    def is_token_refused(self, request: PushRequest, answer: Reply | Silence) -> bool:
        """Return whether the provider refused nothing but our token, and another one can be had."""
        ...

    def receipt(self, request: PushRequest, answer: Reply | Silence) -> Receipt: ...


DeviceReceipt = tuple[Device, Receipt]


def send_requests(transport: Transport, builder: RequestBuilder, devices: Iterable[Device]) -> Iterator[DeviceReceipt]:
    """Yield each device with its receipt. Takes devices as there is room for requests."""
    rest = iter(devices)
    first = RequestRound(transport=transport, builder=builder, stop_on_refusal=True)
    yield from first.send(rest)
    # A refused request has reached no device. The first refusal ends the round, so `refused` holds no more than what
    # was on its way then. With the new token they go first; if that is refused too, the refusal is their receipt.
    if first.refused:
        second = RequestRound(transport=transport, builder=builder, stop_on_refusal=False)
        yield from second.send(chain(first.refused, rest))


@dataclass(slots=True, kw_only=True)
class RequestRound:
    """Requests that carry one token."""

    transport: Transport
    builder: RequestBuilder
    stop_on_refusal: bool
    """Whether a refused token ends the round. Otherwise the refusal is the device's receipt."""
    refused: list[Device] = field(default_factory=list, init=False)
    """Devices without a receipt, because our token was refused."""
    unsent: list[DeviceReceipt] = field(default_factory=list, init=False)
    """Devices to which nothing is sent, until their receipts are yielded."""

    def send(self, devices: Iterator[Device]) -> Iterator[DeviceReceipt]:
        if (failure := self.builder.prepare()) is not None:
            yield from ((device, failure) for device in devices)
            return
        for request, answer in self.transport.exchange(self._requests(devices)):
            assert isinstance(request, PushRequest)  # the very ones that were given
            if self.stop_on_refusal and self.builder.is_token_refused(request, answer):
                self.refused.append(request.device)
            else:
                yield request.device, self.builder.receipt(request, answer)
            yield from self._take_unsent()
        yield from self._take_unsent()

    def _requests(self, devices: Iterator[Device]) -> Iterator[PushRequest]:
        while not self.refused and (device := next(devices, None)) is not None:
            built = self.builder.build(device)
            if isinstance(built, PushRequest):
                yield built
            else:
                self.unsent.append((device, built))

    def _take_unsent(self) -> Iterator[DeviceReceipt]:
        while self.unsent:
            yield self.unsent.pop(0)


# Bodies: one for each language, no larger than a provider takes, whatever the names in it.

MOST_BYTES = 4_096
"""Limit of Apple for the payload and of Google for a message, of which it counts keys and values only."""


def compact(value: object) -> bytes:
    """Encode without escapes: a Chinese character takes three bytes in UTF-8, and six if escaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def fitting(text: str, around: Callable[[str], Mapping[str, Any]], most: int = MOST_BYTES) -> bytes:
    """Return the body around the text, which is shortened to what there is room for."""
    return compact(around(shortened(text, most - len(compact(around(""))), _written)))


def _written(text: str) -> int:
    """Bytes between the quotation marks: a backslash takes two."""
    return len(compact(text)) - 2


# Answers of providers as they come: JSON mostly, and from anybody who stands between.


def read(body: bytes) -> Mapping[str, Any]:
    """Empty where it is no object."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):  # no UTF-8, no JSON, a number of a million digits, brackets of a million
        return {}
    return found if isinstance(found, dict) else {}


def name(value: object) -> str:
    """One of a provider's words; empty for what is none."""
    if isinstance(value, str) and len(value) < 64 and value.isascii() and value.replace("_", "").isalnum():
        return value
    return ""


def said(value: object, phrases: Collection[str]) -> Sequence[str]:
    """Which of these, in small letters, stand in what it says for people. Nothing else of that is kept: it goes into
    records and logs, and may repeat a token or an alert's text."""
    sentence = " ".join(value.split()).lower() if isinstance(value, str) else ""
    return [phrase for phrase in phrases if phrase in sentence]


# When to try again: what a provider asks for, or a while that is never the same for two.

Chance = Callable[[], float]
"""From 0 to 1, and never 1 itself."""

LONGEST = timedelta(days=1)
"""A provider that asks for more has lost its clock: nobody wants the alert by then."""


def in_a_while(now: datetime, chance: float) -> datetime:
    """Ten to twenty seconds: what failed at one moment doesn't come back at one moment."""
    return now + BACKOFF.delay(0, chance)


def as_asked(headers: Mapping[str, str], now: datetime) -> datetime | None:
    """What Retry-After says: seconds or a date, as RFC 9110 has it; None where it says nothing that can be read."""
    said = headers.get("retry-after", "").strip()
    if said.isascii() and said.isdecimal():
        return now + min(timedelta(seconds=int(said[:9])), LONGEST)
    try:
        date = parsedate_to_datetime(said)
    except ValueError:
        return None
    # Without a zone it is said to be in UTC.
    return min(max(date if date.tzinfo else date.replace(tzinfo=UTC), now), now + LONGEST)


def of_silence(silence: Silence, now: datetime, chance: float) -> Receipt:
    if silence.left:
        return Unknown(reason=silence.reason)
    return RetryAt(at=in_a_while(now, chance), reason=silence.reason)

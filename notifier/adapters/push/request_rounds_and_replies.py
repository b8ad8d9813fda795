"""Send an alert to many devices; helpers for request bodies and responses."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import chain
from typing import Any, Protocol

from notifier.domain.push.device import Device
from notifier.domain.push.receipt import Receipt, RetryAt, Unknown
from notifier.domain.push.send_log import RETRY_BACKOFF
from notifier.domain.push.translations import shortened
from notifier.ports.push import NoReply, Post, Reply, Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRequest(Post):
    device: Device
    bearer: str
    """Sender token that the request carries."""


class RequestBuilder(Protocol):
    """Builds the requests of one alert, and interprets the responses."""

    def prepare(self) -> Receipt | None:
        """Prepare a round; may block to fetch a token.

        If nothing can be sent, return the receipt for all devices.
        """
        ...

    def build(self, device: Device) -> PushRequest | Receipt:
        """Return the request, or the receipt of a device that gets no request."""
        ...

    def replace_refused_token(self, request: PushRequest, answer: Reply | NoReply) -> bool:
        """If only the sender token was refused, discard or renew it. Return whether a new token can be tried."""
        ...

    def receipt(self, request: PushRequest, answer: Reply | NoReply) -> Receipt: ...


DeviceReceipt = tuple[Device, Receipt]


def send_requests(transport: Transport, builder: RequestBuilder, devices: Iterable[Device]) -> Iterator[DeviceReceipt]:
    """Yield each device with its receipt. Devices are read from the iterable as the transport accepts requests.

    A request whose sender token is refused is sent a second time if there is a new token.
    """
    remaining = iter(devices)
    first = RequestRound(transport=transport, builder=builder, stop_on_refusal=True)
    yield from first.send(remaining)
    # A refused request has reached no device. After a refusal, the first round takes no more devices. The second round
    # begins with the refused devices, and reports refusals.
    if first.refused_devices:
        second = RequestRound(transport=transport, builder=builder, stop_on_refusal=False)
        yield from second.send(chain(first.refused_devices, remaining))


@dataclass(slots=True, kw_only=True)
class RequestRound:
    """One pass over the devices."""

    transport: Transport
    builder: RequestBuilder
    stop_on_refusal: bool
    """Whether a refused token ends the round. If False, the refusal is the device's receipt."""
    refused_devices: list[Device] = field(default_factory=list, init=False)
    """Devices without a receipt, because the sender token was refused."""
    receipts_without_request: list[DeviceReceipt] = field(default_factory=list, init=False)
    """Receipts of devices that get no request, until they are yielded."""

    def send(self, devices: Iterator[Device]) -> Iterator[DeviceReceipt]:
        if (failure := self.builder.prepare()) is not None:
            yield from ((device, failure) for device in devices)
            return
        for request, answer in self.transport.exchange(self._requests(devices)):
            assert isinstance(request, PushRequest)  # the transport returns the same objects
            if self.stop_on_refusal and self.builder.replace_refused_token(request, answer):
                self.refused_devices.append(request.device)
            else:
                yield request.device, self.builder.receipt(request, answer)
            yield from self._take_receipts_without_request()
        yield from self._take_receipts_without_request()

    def _requests(self, devices: Iterator[Device]) -> Iterator[PushRequest]:
        while not self.refused_devices and (device := next(devices, None)) is not None:
            built = self.builder.build(device)
            if isinstance(built, PushRequest):
                yield built
            else:
                self.receipts_without_request.append((device, built))

    def _take_receipts_without_request(self) -> Iterator[DeviceReceipt]:
        while self.receipts_without_request:
            yield self.receipts_without_request.pop(0)


# Request bodies: one for each language, within the provider's size limit however long the account names are.

MAX_BODY_BYTES = 4_096
"""Apple's limit for the payload, and Google's limit for the keys and values of a message."""


def compact_json(value: object) -> bytes:
    """Encode as JSON in UTF-8 without escapes: a Chinese character takes three bytes instead of six."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def shortened_to_fit(text: str, wrap: Callable[[str], Mapping[str, Any]], max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Return the body that `wrap` makes of the text. A text that is too long for `max_bytes` is shortened."""
    return compact_json(wrap(shortened(text, max_bytes - len(compact_json(wrap(""))), _json_size)))


def _json_size(text: str) -> int:
    """Return the size of the JSON string without its quotation marks."""
    return len(compact_json(text)) - 2


# Untrusted responses: mostly JSON from the provider, but possibly anything from an intermediary.


def parse_object(body: bytes) -> Mapping[str, Any]:
    """Parse a JSON object. Return an empty mapping for anything else."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):  # not UTF-8, not JSON, a number with a million digits, a million brackets
        return {}
    return parsed if isinstance(parsed, dict) else {}


def error_code(value: object) -> str:
    """Return the value if it looks like an error code of a provider, otherwise an empty string."""
    if isinstance(value, str) and len(value) < 64 and value.isascii() and value.replace("_", "").isalnum():
        return value
    return ""


def known_phrases(value: object, phrases: Collection[str]) -> Sequence[str]:
    """Return the known phrases (in lower case) that an error message contains.

    The rest of the message is dropped: it would go into records and logs, and may repeat a token or an alert's text.
    """
    sentence = " ".join(value.split()).lower() if isinstance(value, str) else ""
    return [phrase for phrase in phrases if phrase in sentence]


# Retry times: the time that the provider asks for, or a random delay.

RandomSource = Callable[[], float]
"""Source of random numbers from 0 (inclusive) to 1 (exclusive)."""

MAX_RETRY_DELAY = timedelta(days=1)
"""Limit for a delay that a provider requests. After a longer delay the alert would be worthless."""


def soon_with_jitter(now: datetime, random_number: float) -> datetime:
    """Return a time in ten to twenty seconds. The jitter spreads requests that failed at the same time."""
    return now + RETRY_BACKOFF.delay(0, random_number)


def retry_after_time(headers: Mapping[str, str], now: datetime) -> datetime | None:
    """Return the time of the Retry-After header (seconds or a date, RFC 9110), or None if it is absent or invalid."""
    retry_after = headers.get("retry-after", "").strip()
    if retry_after.isascii() and retry_after.isdecimal():
        return now + min(timedelta(seconds=int(retry_after[:9])), MAX_RETRY_DELAY)
    try:
        date = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    # A date without a time zone is in UTC.
    return min(max(date if date.tzinfo else date.replace(tzinfo=UTC), now), now + MAX_RETRY_DELAY)


def receipt_without_reply(no_reply: NoReply, now: datetime, random_number: float) -> Receipt:
    if no_reply.may_have_arrived:
        return Unknown(reason=no_reply.reason)
    return RetryAt(at=soon_with_jitter(now, random_number), reason=no_reply.reason)

"""One alert to many devices, one request each; requests refused because of our own token are sent twice."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

from notifier.domain.push.device import Device
from notifier.domain.push.graphemes import shortened
from notifier.domain.push.receipt import Receipt
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

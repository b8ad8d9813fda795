"""Letters: one alert to many devices, each a request with a receipt; who was refused because of us goes twice."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from notifier.domain.push.device import Device
from notifier.domain.push.graphemes import shortened
from notifier.domain.push.receipt import Receipt
from notifier.ports.push import Post, Reply, Silence, Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter(Post):
    device: Device
    bearer: str
    """Who sent it, by the token that it went with."""


class Writer(Protocol):
    """Of one alert."""

    def begin(self) -> Receipt | None:
        """Before a round; may ask for what letters need, and wait for that. What becomes of everybody's if it can't be
        had: then none is written."""
        ...

    def write(self, device: Device) -> Letter | Receipt:
        """What is to be sent, or what became of it although nothing was."""
        ...

    def stale(self, letter: Letter, answer: Reply | Silence) -> bool:
        """Whether the provider refused nothing but our token, and another one can be had."""
        ...

    def read(self, letter: Letter, answer: Reply | Silence) -> Receipt: ...


Outcome = tuple[Device, Receipt]


def outcomes(transport: Transport, writer: Writer, devices: Iterable[Device]) -> Iterator[Outcome]:
    """Takes devices as there is room for letters."""
    rest, again = iter(devices), list[Device]()
    yield from _round(transport, writer, rest, again)
    # Such a letter has reached nobody. None was written after the first that came back so, and those that were on their
    # way then are all that is held here.
    if again:
        yield from _round(transport, writer, chain(again, rest), None)


def _round(
    transport: Transport, writer: Writer, devices: Iterator[Device], again: list[Device] | None
) -> Iterator[Outcome]:
    """Without a list nobody goes again: the other token was refused, too."""
    if (trouble := writer.begin()) is not None:
        yield from ((device, trouble) for device in devices)
        return
    unsent: list[Outcome] = []

    def letters() -> Iterator[Letter]:
        while not again and (device := next(devices, None)) is not None:
            written = writer.write(device)
            if isinstance(written, Letter):
                yield written
            else:
                unsent.append((device, written))

    for letter, answer in transport.exchange(letters()):
        assert isinstance(letter, Letter)  # the very ones that were given
        if again is not None and writer.stale(letter, answer):
            again.append(letter.device)
        else:
            yield letter.device, writer.read(letter, answer)
        yield from _taken_out(unsent)
    yield from _taken_out(unsent)


def _taken_out(unsent: list[Outcome]) -> Iterator[Outcome]:
    while unsent:
        yield unsent.pop(0)


# Bodies: one for all who read one language, no larger than a provider takes, whatever the names in it.

MOST_BYTES = 4_096
"""Of Apple's payload, and of what Google counts of a message: keys and values, less than all of it."""


def compact(value: object) -> bytes:
    """UTF-8 as it is: a Chinese character takes three bytes, and six where it is escaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def fitting(text: str, around: Callable[[str], Mapping[str, Any]], most: int = MOST_BYTES) -> bytes:
    """What is around the text, with as much of it as there is room for."""
    return compact(around(shortened(text, most - len(compact(around(""))), _written)))


def _written(text: str) -> int:
    """Bytes between the quotation marks: a backslash takes two."""
    return len(compact(text)) - 2

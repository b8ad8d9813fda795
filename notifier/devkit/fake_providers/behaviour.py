"""Scripted misbehavior of fake providers, parsed from text like `gone=2%,limited=30s,after=10s`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import blake2s
from typing import Any, Self

from notifier.devkit.http2.behaviour import Conduct
from notifier.domain.ids import Platform

# Deterministic script of a fake's misbehavior: the same devices and times in every run.


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultWindow:
    """Time window, relative to the start of the fake."""

    after: timedelta = timedelta()
    lasting: timedelta

    def holds(self, since: timedelta) -> bool:
        return self.after <= since < self.after + self.lasting

    def left(self, since: timedelta) -> timedelta:
        return self.after + self.lasting - since


NEVER = FaultWindow(lasting=timedelta())


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderScript:
    seed: int = 0
    gone: float = 0.0
    """Share of the tokens whose app was uninstalled."""
    gone_for: timedelta = timedelta(days=1)
    """Time between the uninstallation and the start of the fake."""
    elsewhere: float = 0.0
    """Share of the tokens that belong to another environment or project."""
    limited: FaultWindow = NEVER
    """Window of 429 responses. Their Retry-After is the end of the window."""
    down: FaultWindow = NEVER
    """Window of 503 responses to all requests."""

    def is_gone(self, token: str) -> bool:
        return self._share("gone", token) < self.gone

    def is_elsewhere(self, token: str) -> bool:
        return self._share("elsewhere", token) < self.elsewhere

    def gone_since(self, began: datetime) -> datetime:
        return began - self.gone_for

    def _share(self, what: str, token: str) -> float:
        """Return a number from 0 to 1 that is fixed for the token."""
        digest = blake2s(f"{self.seed}/{what}/{token}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64


def retry_after(span: FaultWindow, since: timedelta) -> str:
    return str(max(1, -int(-span.left(since).total_seconds() // 1)))


FOR_EVER = timedelta(days=36_500)
STREAMS: Mapping[Platform, int] = {Platform.APNS: 1_000, Platform.FCM: 100, Platform.WEB: 100}
"""Concurrent streams per connection, as far as known. Apple's limit varies and is at most this."""
MOST_COUNT = 1_000_000_000
EXAMPLE = "gone=2%,goaway=1000,limited=30s,after=10s"
BEGIN = ("limited", "down", "stall")
"""Options whose start `after` sets."""

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    script: ProviderScript = field(default_factory=ProviderScript)
    conduct: Conduct = field(default_factory=Conduct)
    stalls: FaultWindow = NEVER
    """Window in which the fake accepts alerts without a response."""

    @classmethod
    def read(cls, text: str, platform: Platform) -> Self:
        """Parse comma-separated options. The prefix `apns.`, `fcm.` or `web.` limits an option to that fake.

        Raises ValueError, with a message for the operator, for an invalid option of any platform.
        """
        values = {own: dict[str, Any]() for own in Platform}
        options = [option.strip() for option in text.split(",")] if text.strip() else []
        for option in options:
            platforms, name, value = _word(option)
            for target in platforms:
                if name in values[target]:
                    raise ValueError(f"{name} is said twice of {target}.")
                values[target][name] = value
        for after_option in (option for option in options if option.partition("=")[0].endswith("after")):
            _require_begun(after_option, values)
        return cls._of(values[platform], platform)

    @classmethod
    def _of(cls, said: Mapping[str, Any], platform: Platform) -> Self:
        after = said.get("after", timedelta())

        def span(name: str) -> FaultWindow:
            return FaultWindow(after=after, lasting=said[name]) if name in said else NEVER

        script = ProviderScript(gone=said.get("gone", 0.0), elsewhere=said.get("elsewhere", 0.0))
        conduct = Conduct(streams=said.get("streams", STREAMS[platform]), latency=said.get("latency", timedelta()))
        return cls(
            script=replace(script, seed=said.get("seed", 0), limited=span("limited"), down=span("down")),
            conduct=replace(conduct, goaway_after=said.get("goaway"), cut_after=said.get("cut")),
            stalls=span("stall"),
        )


def _require_begun(late: str, said: Mapping[Platform, Mapping[str, Any]]) -> None:
    """Raises ValueError if `after` has no option to apply to. Without a prefix one such platform is enough."""
    if not any(set(BEGIN) & set(said[platform]) for platform in _word(late)[0]):
        raise ValueError(f"{late!r} says when {', '.join(BEGIN[:-1])} or {BEGIN[-1]} begins, and there is none.")


def _word(word: str) -> tuple[list[Platform], str, Any]:
    if not word:
        raise ValueError(f"there is a comma with no word beside it; it is written as {EXAMPLE}.")
    qualified_name, _, value = word.partition("=")
    prefix, dot, name = qualified_name.rpartition(".")
    if dot and prefix not in set(Platform):
        raise ValueError(f"{word!r} is for {prefix!r}; there are {', '.join(Platform)}.")
    if name not in WORDS:
        raise ValueError(f"{word!r} is no word of a script; there are {', '.join(WORDS)}, as in {EXAMPLE}.")
    read, must = WORDS[name]
    try:
        parsed = read(value)
    except (ValueError, OverflowError):
        raise ValueError(f"{word!r}: {name} is written {must}.") from None
    return [Platform(prefix)] if dot else [*Platform], name, parsed


def _share(text: str) -> float:
    number = float(text.removesuffix("%"))
    if not text.endswith("%") or not 0 <= number <= 100:
        raise ValueError
    return number / 100


def _span(text: str) -> timedelta:
    if not (match := re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h)", text, re.ASCII)):
        raise ValueError
    return min(timedelta(**{_UNITS[match[2]]: float(match[1])}), FOR_EVER)


def _while(text: str) -> timedelta:
    if not (duration := _span(text)):
        raise ValueError
    return duration


def _while_or_ever(text: str) -> timedelta:
    return _while(text) if text else FOR_EVER


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MOST_COUNT):
        raise ValueError
    return int(text)


WORDS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "gone": (_share, "gone=2%"),
    "elsewhere": (_share, "elsewhere=1%"),
    "limited": (_while, "limited=30s"),
    "down": (_while, "down=30s"),
    "stall": (_while_or_ever, "stall, for ever, or stall=30s"),
    "goaway": (_count, "goaway=1000"),
    "cut": (_count, "cut=500"),
    "streams": (_count, "streams=1"),
    "latency": (_span, "latency=50ms"),
    "after": (_span, "after=10s"),
    "seed": (_count, "seed=7"),
}
"""Options with their parsers and examples. `after` is the start of `limited`, `down` and `stall`, relative to the start
of the fake."""

"""Scripted misbehavior of fake providers, parsed from text like `gone=2%,limited=30s,after=10s`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import blake2s
from typing import Any, Self

from notifier.devkit.http2.connection import Http2Behavior
from notifier.domain.ids import Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultWindow:
    """Time window of a fault, relative to the start of the fake."""

    after: timedelta = timedelta()
    duration: timedelta

    def is_active(self, uptime: timedelta) -> bool:
        return self.after <= uptime < self.after + self.duration

    def remaining(self, uptime: timedelta) -> timedelta:
        return self.after + self.duration - uptime


NEVER = FaultWindow(duration=timedelta())


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderScript:
    """Misbehavior of a fake in its responses. The same seed selects the same tokens in every run."""

    seed: int = 0
    gone_share: float = 0.0
    """Share of the tokens whose app was uninstalled."""
    gone_for: timedelta = timedelta(days=1)
    """Time between the uninstallation and the start of the fake."""
    elsewhere_share: float = 0.0
    """Share of the tokens that belong to another environment, project or application server key.

    The option `elsewhere` sets it.
    """
    limited: FaultWindow = NEVER
    """Window of 429 responses. Their Retry-After is the rest of the window."""
    down: FaultWindow = NEVER
    """Window of 503 responses."""

    def is_gone(self, token: str) -> bool:
        return self._fraction("gone", token) < self.gone_share

    def belongs_elsewhere(self, token: str) -> bool:
        return self._fraction("elsewhere", token) < self.elsewhere_share

    def gone_since(self, started: datetime) -> datetime:
        return started - self.gone_for

    def _fraction(self, purpose: str, token: str) -> float:
        """Return a number from 0 to 1 that depends on the seed, the purpose and the token only."""
        digest = blake2s(f"{self.seed}/{purpose}/{token}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64


def retry_after(window: FaultWindow, uptime: timedelta) -> str:
    return str(max(1, -int(-window.remaining(uptime).total_seconds() // 1)))


FOREVER = timedelta(days=36_500)
STREAM_LIMITS: Mapping[Platform, int] = {Platform.APNS: 1_000, Platform.FCM: 100, Platform.WEB: 100}
"""Default limits of concurrent streams per connection: those of the real providers. Apple's varies up to 1,000."""
MAX_COUNT = 1_000_000_000
EXAMPLE = "gone=2%,goaway=1000,limited=30s,after=10s"
WINDOW_OPTIONS = ("limited", "down", "stall")
"""Options of fault windows, whose start the option `after` sets."""

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Behavior:
    """Complete behavior of one fake: its responses, its HTTP/2 server, and stalls."""

    script: ProviderScript = field(default_factory=ProviderScript)
    http2: Http2Behavior = field(default_factory=Http2Behavior)
    stall_window: FaultWindow = NEVER
    """Window in which the fake processes requests but sends no responses."""

    @classmethod
    def read(cls, text: str, platform: Platform) -> Self:
        """Parse comma-separated options. The prefix `apns.`, `fcm.` or `web.` limits an option to that fake.

        Raises ValueError, with a message for the operator, for an invalid option of any platform.
        """
        values = {each_platform: dict[str, Any]() for each_platform in Platform}
        options = [option_text.strip() for option_text in text.split(",")] if text.strip() else []
        for option_text in options:
            platforms, name, value = _parse_option(option_text)
            for target in platforms:
                if name in values[target]:
                    raise ValueError(f"{name} is set twice for {target}.")
                values[target][name] = value
        for after_option in (option_text for option_text in options if option_text.partition("=")[0].endswith("after")):
            _require_window(after_option, values)
        return cls._of(values[platform], platform)

    @classmethod
    def _of(cls, options: Mapping[str, Any], platform: Platform) -> Self:
        after = options.get("after", timedelta())

        def window(name: str) -> FaultWindow:
            return FaultWindow(after=after, duration=options[name]) if name in options else NEVER

        script = ProviderScript(gone_share=options.get("gone", 0.0), elsewhere_share=options.get("elsewhere", 0.0))
        http2 = Http2Behavior(
            max_concurrent_streams=options.get("streams", STREAM_LIMITS[platform]),
            latency=options.get("latency", timedelta()),
        )
        return cls(
            script=replace(script, seed=options.get("seed", 0), limited=window("limited"), down=window("down")),
            http2=replace(http2, goaway_after=options.get("goaway"), cut_after=options.get("cut")),
            stall_window=window("stall"),
        )


def _require_window(after_option: str, options: Mapping[Platform, Mapping[str, Any]]) -> None:
    """Raise ValueError if no platform of the `after` option has one of WINDOW_OPTIONS."""
    if not any(set(WINDOW_OPTIONS) & set(options[platform]) for platform in _parse_option(after_option)[0]):
        raise ValueError(
            f"{after_option!r} sets the start of {', '.join(WINDOW_OPTIONS[:-1])} or {WINDOW_OPTIONS[-1]},"
            " but the script has none of them."
        )


def _parse_option(option: str) -> tuple[list[Platform], str, Any]:
    if not option:
        raise ValueError(f"there is a comma without an option beside it; example: {EXAMPLE}.")
    qualified_name, _, value = option.partition("=")
    prefix, dot, name = qualified_name.rpartition(".")
    if dot and prefix not in set(Platform):
        raise ValueError(f"{option!r} has the unknown prefix {prefix!r}; choose from {', '.join(Platform)}.")
    if name not in OPTIONS:
        raise ValueError(f"{option!r} is not an option; choose from {', '.join(OPTIONS)}, as in {EXAMPLE}.")
    read, expected = OPTIONS[name]
    try:
        parsed = read(value)
    except (ValueError, OverflowError):
        raise ValueError(f"{option!r} is invalid; write {expected}.") from None
    return [Platform(prefix)] if dot else [*Platform], name, parsed


def _parse_share(text: str) -> float:
    number = float(text.removesuffix("%"))
    if not text.endswith("%") or not 0 <= number <= 100:
        raise ValueError
    return number / 100


def _parse_duration_or_zero(text: str) -> timedelta:
    if not (match := re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h)", text, re.ASCII)):
        raise ValueError
    return min(timedelta(**{_UNITS[match[2]]: float(match[1])}), FOREVER)


def _parse_duration(text: str) -> timedelta:
    if not (duration := _parse_duration_or_zero(text)):
        raise ValueError
    return duration


def _parse_duration_or_forever(text: str) -> timedelta:
    return _parse_duration(text) if text else FOREVER


def _parse_count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_COUNT):
        raise ValueError
    return int(text)


OPTIONS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "gone": (_parse_share, "gone=2%"),
    "elsewhere": (_parse_share, "elsewhere=1%"),
    "limited": (_parse_duration, "limited=30s"),
    "down": (_parse_duration, "down=30s"),
    "stall": (_parse_duration_or_forever, "stall (forever) or stall=30s"),
    "goaway": (_parse_count, "goaway=1000"),
    "cut": (_parse_count, "cut=500"),
    "streams": (_parse_count, "streams=1"),
    "latency": (_parse_duration_or_zero, "latency=50ms"),
    "after": (_parse_duration_or_zero, "after=10s"),
    "seed": (_parse_count, "seed=7"),
}
"""Parser and example of each option.

`after` is the start of `limited`, `down` and `stall`, relative to the start of the fake. `goaway=1000` ends each
connection with GOAWAY after 1,000 requests. `cut=500` closes each connection after 500 requests, and leaves open
requests unanswered.
"""

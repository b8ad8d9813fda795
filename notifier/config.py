"""The settings: every one with its default and its reason; the only reader of the environment."""

import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, get_type_hints

import msgspec

from notifier.domain.errors import BadSetting

PREFIX = "NOTIFIER_"

CELEBRITY_THRESHOLD = 1_000_000
"""Followers, by the brief."""
HYSTERESIS = 0.9
"""A celebrity stays one until she has fallen to this share of the threshold: no flapping at the line."""

LONGEST_COLLAPSE = timedelta(days=1)
"""A burst is announced once: what opened yesterday is no place for what is said today."""
MONITORS = timedelta(seconds=0.1), timedelta(hours=1)
"""More often is a busy loop; more seldom, and the pressure is of an hour ago."""
MOST_STREAMS = 50_000
"""More connections than one process can be told to serve within a second."""
ORIGIN = re.compile(r"(https?)://([a-z0-9_]([a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:]+\])(:[1-9][0-9]{0,4})?")
"""As a browser writes it, for it is compared as it stands: in small letters, without a path."""
OWN_PORTS = {"http": ":80", "https": ":443"}
"""Left out by browsers."""
SHORTEST_SECRET = 32
"""Bytes: HS256 is as strong as its hash only with a key of that length."""
MOST_PORT = 65535
LEVELS = ("debug", "info", "warning", "error", "critical")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    data: Path = Path("./notifier-data")
    """The folder that holds everything durable of the embedded profile."""
    profile: str = "embedded"
    host: str = "127.0.0.1"
    port: int = 8080
    """0 takes any free port."""
    redis_url: str = ""
    """Empty: a Valkey of our own is started and watched."""
    threshold: int = CELEBRITY_THRESHOLD
    collapse: timedelta | None = None
    """The least collapse window of every subject; None leaves it to the subject's policy."""
    refill: timedelta | None = None
    """Until a subject that spent its fan-outs has another one; None leaves it to the subject's policy."""
    secret: str = ""
    """Signs tokens and cursors; empty: made once and kept in the data folder."""
    monitor_every: timedelta = timedelta(seconds=10)
    streams: int = 5_000
    """Live streams of one API process; each is a connection and about 10 kB."""
    origins: str = ""
    """Of other pages that may ask for inboxes in a browser; empty: none."""
    jars: Path = Path("~/.cache/notifier/jars")
    """Where `notifier services` keeps the jars of Kafka and Cassandra, for every data folder."""
    log_level: str = "info"
    demo: str = ""
    """The people whose inboxes the demo's page shows; empty: this is no demo, and it has no such page."""
    command: str = "notifier"
    """How the command that started the demo is typed; its page shows lines to copy."""

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None) -> Self:
        """From NOTIFIER_DATA, NOTIFIER_PORT and so on; durations are in seconds. Raises BadSetting."""
        found = os.environ if environment is None else environment
        variables = {field.name: PREFIX + field.name.upper() for field in fields(cls)}
        return cls(**{name: _read(name, found[variable]) for name, variable in variables.items() if variable in found})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a setting must be, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]


RULES: Mapping[str, Rule] = {
    "data": Rule(words="a folder", holds=lambda folder: True),
    "jars": Rule(words="a folder", holds=lambda folder: True),
    "profile": Rule(words="the name of a profile", holds=lambda name: re.fullmatch(r"\w+", name) is not None),
    "host": Rule(words="a host name or an address", holds=lambda host: re.fullmatch(r"\S+", host) is not None),
    "port": Rule(words="a whole number from 0 to 65535", holds=lambda port: 0 <= port <= 65535),
    "redis_url": Rule(
        words="empty, or a redis://, rediss:// or unix:// address",
        holds=lambda url: re.fullmatch(r"|(redis|rediss|unix)://\S+", url) is not None,
    ),
    "threshold": Rule(words="a whole number from 1 on", holds=lambda followers: followers >= 1),
    "collapse": Rule(
        words="a number of seconds from 0 to 86400",
        holds=lambda window: window is None or timedelta(0) <= window <= LONGEST_COLLAPSE,
    ),
    "refill": Rule(
        words="a number of seconds from 1 to 86400",
        holds=lambda wait: wait is None or timedelta(seconds=1) <= wait <= LONGEST_COLLAPSE,
    ),
    "secret": Rule(
        words=f"empty, or {SHORTEST_SECRET} bytes long or longer",
        holds=lambda secret: not secret or len(secret.encode(errors="surrogateescape")) >= SHORTEST_SECRET,
    ),
    "monitor_every": Rule(
        words="a number of seconds from 0.1 to 3600", holds=lambda every: MONITORS[0] <= every <= MONITORS[1]
    ),
    "streams": Rule(words="a whole number from 0 to 50000", holds=lambda streams: 0 <= streams <= MOST_STREAMS),
    "origins": Rule(
        # No *: who may show people their inboxes is for whoever runs this to say, page by page.
        words="empty, or origins like https://app.example or http://localhost:3000 with commas between them, and no *",
        holds=lambda origins: not origins or all(_is_origin(one) for one in origins.split(",")),
    ),
    "log_level": Rule(words=", ".join(LEVELS[:-1]) + f" or {LEVELS[-1]}", holds=lambda level: level.lower() in LEVELS),
    "demo": Rule(
        words="empty, or four user ids with commas between them",
        holds=lambda people: re.fullmatch(r"|[^,\s]+(,[^,\s]+){3}", people) is not None,
    ),
    "command": Rule(words="words for a shell", holds=lambda words: bool(words.strip())),
}


def refusal(name: str, value: object) -> str | None:
    """Why a setting can't have this value, behind the name by which it was given; None when it can."""
    return None if RULES[name].holds(value) else _wrong(name, str(value))


def environment_with(more: Mapping[str, str]) -> dict[str, str]:
    """This process's environment and what a child of it has to know besides."""
    return {**os.environ, **more}


def environment_without_settings() -> dict[str, str]:
    """This process's environment as it is for somebody who has set nothing of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


def has_display(environment: Mapping[str, str] | None = None) -> bool:
    """Whether a browser that is opened could be seen; without one, Linux might start one in this terminal."""
    found = os.environ if environment is None else environment
    return sys.platform in ("darwin", "win32") or any(found.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def set_in_environment(name: str, value: str) -> None:
    """For a library that takes a setting from nowhere else."""
    os.environ[name] = value


def _is_origin(text: str) -> bool:
    found = ORIGIN.fullmatch(text)
    return found is not None and found[4] != OWN_PORTS[found[1]] and int((found[4] or ":0")[1:]) <= MOST_PORT


def _read(name: str, text: str) -> Any:
    with suppress(msgspec.ValidationError):  # its words are for programmers
        value = msgspec.convert(text, type=get_type_hints(Settings)[name], strict=False, dec_hook=_convert)
        if value is not None and RULES[name].holds(value):
            return value
    raise BadSetting(f"{PREFIX}{name.upper()} {_wrong(name, text)}")


def _wrong(name: str, text: str) -> str:
    return f"is {_shown(name, text)}; it must be {RULES[name].words}."


def _shown(name: str, text: str) -> str:
    """What somebody wrote, without what nobody may read."""
    if name == "secret":
        return f"{len(text)} characters long"
    return repr(without_password(text) if name == "redis_url" else text)


def without_password(url: str) -> str:
    return re.sub(r"[^/@]*@", "…@", url)


def _convert(kind: type, value: object) -> object:
    if kind is Path:
        if not str(value).strip():
            raise ValueError("no folder")
        return Path(str(value))
    raise TypeError(f"No setting has the type {kind}.")

"""The settings: every one with its default and its reason; the only reader of the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Self

import msgspec

from notifier.domain.errors import BadSetting

PREFIX = "NOTIFIER_"

CELEBRITY_THRESHOLD = 1_000_000
"""Followers, by the brief."""
HYSTERESIS = 0.9
"""A celebrity stays one until she has fallen to this share of the threshold: no flapping at the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    data: Path = Path("./notifier-data")
    """The folder that holds everything durable of the embedded profile."""
    profile: str = "embedded"
    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8080
    """0 takes any free port."""
    redis_url: Annotated[str, msgspec.Meta(pattern="^$|^(redis|rediss|unix)://")] = ""
    """Empty: a Valkey of our own is started and watched."""
    threshold: Annotated[int, msgspec.Meta(ge=1)] = CELEBRITY_THRESHOLD
    collapse: timedelta | None = None
    """The least collapse window of every subject; None leaves it to the subject's policy."""
    secret: str = ""
    """Signs tokens and cursors; empty: made once and kept in the data folder."""
    monitor_every: timedelta = timedelta(seconds=10)
    log_level: Annotated[str, msgspec.Meta(pattern="(?i)^(debug|info|warning|error|critical)$")] = "info"

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None) -> Self:
        """From NOTIFIER_DATA, NOTIFIER_PORT and so on; durations are in seconds. Raises BadSetting."""
        found = os.environ if environment is None else environment
        names = {PREFIX + field.name.upper(): field.name for field in fields(cls)}
        given = {names[key]: value for key, value in found.items() if key in names}
        try:
            return msgspec.convert(given, type=cls, strict=False, dec_hook=_convert)
        except msgspec.ValidationError as error:
            raise BadSetting(f"{error}.") from error


def environment_with(more: Mapping[str, str]) -> dict[str, str]:
    """This process's environment and what a child of it has to know besides."""
    return {**os.environ, **more}


def _convert(kind: type, value: object) -> object:
    if kind is Path:
        return Path(str(value))
    raise TypeError(f"No setting has the type {kind}.")

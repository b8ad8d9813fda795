"""A receipt: what became of one alert for one device, as far as its provider tells."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The provider has it; whether the phone rings is between the two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropToken:
    """Nobody is there any more."""

    at: datetime | None = None
    """Since when the provider knows: a device that was registered after that stays. None: it knows now."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAt:
    """Not taken, and later it may be."""

    at: datetime
    reason: str
    alone: bool = False
    """Said of this device and of no other: its provider is well, and is asked no less for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadError:
    """Not taken, and never will be, whoever it is for: our mistake."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigError:
    """Not taken, because of who sends: a key, a token of our own, a project. No device is to blame."""

    reason: str
    part: str = ""
    """So it is for some of the provider's devices alone: a name for those, which is shown behind its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """It was sent, and no answer came: the phone may have it. To be sent again, with the same id."""

    reason: str


Receipt = Accepted | DropToken | RetryAt | PayloadError | ConfigError | Unknown

"""Receipts: a provider's result for one alert to one device."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The provider accepted the alert. This does not prove that it reached the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDevice:
    """No alert can be sent to this address: drop the device."""

    at: datetime | None = None
    """When the address became invalid, if known. A device registered later is kept."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAt:
    """Not accepted, but may be accepted later."""

    at: datetime
    reason: str
    is_device_only: bool = False
    """True if only this device is concerned: the provider works, and the rate for other devices is unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadError:
    """The provider rejects the request itself, so a retry would be rejected, too."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigError:
    """Not accepted because of our configuration (key, provider token or project), not because of the device."""

    reason: str
    device_group: str = ""
    """Name of the rejected group of devices; empty if all devices of the line are rejected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """No answer came, but the alert may have arrived. A retry has the same id."""

    reason: str


Receipt = Accepted | DropDevice | RetryAt | PayloadError | ConfigError | Unknown

"""Providers of whoever sends no alert."""

from collections.abc import Mapping

from notifier.adapters.push.unconfigured import Unconfigured
from notifier.domain.device import Platform
from notifier.ports.providers import Provider

NOBODY: Mapping[Platform, Provider] = dict.fromkeys(
    Platform, Unconfigured(reason="no credentials: there are none here.")
)

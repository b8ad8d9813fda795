"""Prepares all statements that bind values when a role starts.

Without this warm-up the first read of an inbox took 3 s on three cold nodes.
"""

import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from time import monotonic
from types import ModuleType

from cassandra import InvalidRequest

import notifier.adapters.cassandra as package
from notifier.adapters.cassandra.driver.session import Cluster

_BINDS_VALUES = re.compile(r"\s*(--[^\n]*\n\s*)*(SELECT|INSERT|UPDATE|DELETE)\b[^%]*\?[^%]*")
"""Matches statements that bind values with `?`. Migrations and health checks use %, and are not prepared."""

TIMEOUT_SECONDS = 5.0
"""Maximum duration of the warm-up: a role must start even if the store is slow. One node takes a tenth of it."""


def statements() -> Sequence[str]:
    """Return all statements that bind values. They are constants of the modules in this package."""
    constants = (text for module in _modules() for value in vars(module).values() for text in _strings(value))
    return list(dict.fromkeys(text for text in constants if _BINDS_VALUES.fullmatch(text)))


def prepare(cluster: Cluster, timeout: float = TIMEOUT_SECONDS) -> None:
    """Prepare the statements, until the timeout in seconds. Raises StoreUnavailable, and UnusableEnvironment.

    A statement that is left at the timeout, or that a node rejects because its schema lags, is prepared on first use.
    """
    deadline = monotonic() + timeout
    for statement in statements():
        if monotonic() >= deadline:
            return
        with suppress(InvalidRequest):
            cluster.prepare(statement)


def _strings(value: object) -> Iterator[str]:
    """Yield the strings of a constant, or of a mapping with one string per tier."""
    candidates = value.values() if isinstance(value, Mapping) else [value]
    return (text for text in candidates if isinstance(text, str))


def _modules() -> Iterator[ModuleType]:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield import_module(module.name)

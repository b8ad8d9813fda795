"""The statements that bind values, prepared when a role starts: of three cold nodes the first tab took 3 s for it."""

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

_BINDS = re.compile(r"\s*(--[^\n]*\n\s*)*(SELECT|INSERT|UPDATE|DELETE)\b[^%]*\?[^%]*")
"""What has a % is executed as it is, by whoever migrates or looks."""

WITHIN = 5.0
"""Seconds; one takes a tenth of it. Who starts beside a slow store shall start all the same."""


def statements() -> Sequence[str]:
    """Each is a constant of a module of this package, so that none is forgotten here."""
    found = (one for module in _modules() for value in vars(module).values() for one in _strings(value))
    return list(dict.fromkeys(one for one in found if _BINDS.fullmatch(one)))


def prepare(cluster: Cluster, within: float = WITHIN) -> None:
    """What is left then, or unknown to a node that lags behind, is prepared by whoever asks it first.

    Raises StoreUnavailable, and Environment.
    """
    deadline = monotonic() + within
    for statement in statements():
        if monotonic() >= deadline:
            return
        with suppress(InvalidRequest):
            cluster.prepared(statement)


def _strings(value: object) -> Iterator[str]:
    """Of a constant, or of one for each tier."""
    each = value.values() if isinstance(value, Mapping) else [value]
    return (one for one in each if isinstance(one, str))


def _modules() -> Iterator[ModuleType]:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield import_module(module.name)

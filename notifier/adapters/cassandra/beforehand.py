"""The statements that bind values, prepared when a role starts: of three cold nodes the first tab took 3 s for it."""

import pkgutil
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from types import ModuleType

import notifier.adapters.cassandra as package
from notifier.adapters.cassandra.session import Cluster

_BINDS = re.compile(r"\s*(--[^\n]*\n\s*)*(SELECT|INSERT|UPDATE|DELETE)\b[^%]*\?[^%]*")
"""What has a % is executed as it is, by whoever migrates or looks."""


def statements() -> Sequence[str]:
    """Each is a constant of a module of this package, so that none is forgotten here."""
    found = (value for module in _modules() for value in vars(module).values() if isinstance(value, str))
    return list(dict.fromkeys(value for value in found if _BINDS.fullmatch(value)))


def prepare(cluster: Cluster) -> None:
    """Raises what `Cluster.prepared` does; what is prepared by then stays so."""
    for statement in statements():
        cluster.prepared(statement)


def _modules() -> Iterator[ModuleType]:
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        yield import_module(module.name)

"""Loads long statements from files, and prepares statements when a role starts.

Without the preparation the first read of an inbox took 3 s on three cold nodes.
"""

import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from time import monotonic
from types import ModuleType

from cassandra import InvalidRequest

import notifier.adapters.cassandra as package
from notifier.adapters.cassandra.driver.session import Cluster

_QUERIES = Path(__file__).parents[1] / "queries"


def load_statement(name: str) -> str:
    """Return the text of `queries/<name>.cql`."""
    return (_QUERIES / f"{name}.cql").read_text()


# Warm-up

_BINDS_VALUES = re.compile(r"\s*(--[^\n]*\n\s*)*(SELECT|INSERT|UPDATE|DELETE)\b[^%]*\?[^%]*")
"""Matches statements that bind values with `?`. Statements with `%s` run without being prepared."""

TIMEOUT_SECONDS = 5.0
"""Time after which the warm-up stops: a role must start even if the store is slow. With one node it takes 0.5 s."""


def statements() -> Sequence[str]:
    """Return the statements that bind values, from the constants of all Cassandra modules."""
    constants = (text for module in _modules() for value in vars(module).values() for text in _strings(value))
    return list(dict.fromkeys(text for text in constants if _BINDS_VALUES.fullmatch(text)))


def prepare_statements(cluster: Cluster, timeout: float = TIMEOUT_SECONDS) -> None:
    """Prepare the statements; stop after `timeout` seconds. Raises StoreUnavailable or UnusableEnvironment.

    Skip a statement that a node rejects, because the node may not have the newest schema yet. Each statement that is
    missing afterwards is prepared on first use.
    """
    deadline = monotonic() + timeout
    for statement in statements():
        if monotonic() >= deadline:
            return
        with suppress(InvalidRequest):
            cluster.prepare(statement)


def _strings(value: object) -> Iterator[str]:
    """Yield the value if it is a string, or the strings of a mapping, such as one with a statement per tier."""
    candidates = value.values() if isinstance(value, Mapping) else [value]
    return (text for text in candidates if isinstance(text, str))


def _modules() -> Iterator[ModuleType]:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield import_module(module.name)

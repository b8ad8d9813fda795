"""Ports that fail: out of reach, or broken for a reason of their own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from notifier.domain.errors import NotifierError


@dataclass(frozen=True)
class Refusing:
    """Every call raises; the port behind it is never reached."""

    port: object
    error: type[NotifierError]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        getattr(self.port, name)

        def refuse(*_: object, **__: object) -> None:
            raise self.error(name)

        return refuse


@dataclass(frozen=True)
class Broken:
    """Every write fails in a way that no second try mends."""

    port: object

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def write(self, *_: object) -> None:
        raise ValueError("a row of no shape")

"""A port that runs a callback once, after the effect of one of its calls."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class RunsAfterCall:
    port: object
    method: str
    callback: Callable[[], None]
    called: bool = field(default=False)

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.port, name)
        if name != self.method or self.called:
            return call

        def call_then_run(*args: Any) -> Any:
            self.called = True
            result = call(*args)
            self.callback()
            return result

        return call_then_run

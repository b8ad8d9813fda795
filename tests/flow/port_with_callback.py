"""A port that runs a callback once, after the effect of one of its calls."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Stalling:
    port: object
    method: str
    stop: Callable[[], None]
    stopped: bool = field(default=False)

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.port, name)
        if name != self.method or self.stopped:
            return call

        def stall(*args: Any) -> Any:
            self.stopped = True
            result = call(*args)
            self.stop()
            return result

        return stall

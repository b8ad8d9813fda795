"""A port whose caller is stopped once, behind the effect of one of its calls."""

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

        def stall(*given: Any) -> Any:
            self.stopped = True
            found = call(*given)
            self.stop()
            return found

        return stall

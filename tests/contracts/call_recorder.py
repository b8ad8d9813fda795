"""An adapter wrapper that records the called methods."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Recorded:
    """Wraps an adapter and records which of its methods were called."""

    adapter: Any
    used: set[tuple[type, str]]

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.adapter, name)

        def called(*args: Any, **kwargs: Any) -> Any:
            self.used.add((type(self.adapter), name))
            return method(*args, **kwargs)

        return called

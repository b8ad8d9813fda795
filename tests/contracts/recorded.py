"""An adapter whose calls are noted."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Recorded:
    """An adapter that notes which of its methods were called."""

    adapter: Any
    used: set[tuple[type, str]]

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.adapter, name)

        def called(*given: Any, **named: Any) -> Any:
            self.used.add((type(self.adapter), name))
            return method(*given, **named)

        return called

"""What kafka-python reads answers with stays there, however many threads begin to read at once.

The library makes a class for each version of an answer when the first one comes, and each takes the former's place in
its register, by a weak reference. Of two that two threads make of the same version, the register may have the one that
is kept nowhere: with the next collection of garbage no client of the process can read that kind of answer any more.
"""

from typing import Any

from kafka.protocol.api_header import ResponseClassRegistry

REGISTER = "_response_class_registry"


class _FirstStays(dict[int, Any]):
    """The class that a module defines comes first, knows all its versions, and lives as long as the process."""

    def __setitem__(self, kind: int, found: Any) -> None:
        self.setdefault(kind, found)


def keep() -> None:
    known = getattr(ResponseClassRegistry, REGISTER, {})
    setattr(ResponseClassRegistry, REGISTER, _FirstStays({kind: found[None] for kind, found in known.items()}))

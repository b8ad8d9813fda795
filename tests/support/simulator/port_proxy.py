"""The tap on a port: every call stops before and after its effect, and may fail, as the scheduler wants it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Any, Protocol, TypeVar, cast

from notifier.domain.errors import CacheUnavailable, LogUnavailable, QueueUnavailable, StoreUnavailable, Unavailable
from tests.support.simulator.script import How, Part

T = TypeVar("T")

ERRORS: dict[Part, type[Unavailable]] = {
    Part.STORE: StoreUnavailable,
    Part.LOG: LogUnavailable,
    Part.CACHE: CacheUnavailable,
    Part.QUEUE: QueueUnavailable,
    Part.PROVIDER: Unavailable,
}

SPLIT = ("append", "write", "swap", "record", "plan", "insert", "announce", "enqueue", "intend", "close")
"""Calls whose ports say that some of what was given may have taken effect."""

REMEMBERED_HERE = ("poll",)
"""Calls that change nothing outside: one that fails has had no effect."""


class Gate(Protocol):
    """The scheduler, as a call sees it."""

    def stop(self, label: str, part: Part) -> How | None:
        """Lets others go on; returns how the call is to fail. What it raises is the thread's end."""
        ...

    def passed(self, label: str) -> None:
        """The effect has happened; lets others go on."""
        ...


def tapped(port: T, name: str, part: Part, gate: Gate) -> T:
    return cast(T, Tap(port, name, part, gate))


@dataclass(frozen=True, slots=True)
class Tap:
    port: object
    name: str
    part: Part
    gate: Gate
    _made: dict[str, Callable[..., Any]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """By method: a course calls each of them thousands of times."""

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if (found := self._made.get(method)) is None:
            found = self._made[method] = self._tapped(method)
        return found

    def _tapped(self, method: str) -> Callable[..., Any]:
        call = getattr(self.port, method)
        label = f"{self.name}.{method}"

        def sync(*given: Any, **named: Any) -> Any:
            how = self.gate.stop(label, self.part)
            if how is How.BEFORE or (how is How.HALF and method not in SPLIT) or (how and method in REMEMBERED_HERE):
                raise ERRORS[self.part](label)
            if how is How.HALF:
                call(*_half(given), **named)
                raise ERRORS[self.part](label)
            found = call(*given, **named)
            self.gate.passed(label)
            if how is How.AFTER:
                raise ERRORS[self.part](label)
            return found

        async def unsync(*given: Any, **named: Any) -> Any:
            how = self.gate.stop(label, self.part)
            if how in (How.BEFORE, How.HALF):
                raise ERRORS[self.part](label)
            found = await call(*given, **named)
            self.gate.passed(label)
            if how is How.AFTER:
                raise ERRORS[self.part](label)
            return found

        return unsync if iscoroutinefunction(call) else sync


def _half(given: Sequence[Any]) -> list[Any]:
    """Of one list its first half; of two the first alone, because it stands before the other."""
    lists = [i for i, argument in enumerate(given) if isinstance(argument, (list, tuple))]
    cut = {lists[0]: len(given[lists[0]]) // 2} if len(lists) == 1 else dict.fromkeys(lists[1:], 0)
    return [argument[: cut[i]] if i in cut else argument for i, argument in enumerate(given)]

"""Proxies ports: calls stop before and after their effect, and may fail."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Any, Protocol, TypeVar, cast

from notifier.domain.errors import CacheUnavailable, LogUnavailable, QueueUnavailable, StoreUnavailable, Unavailable
from tests.support.simulator.script import FailureMode, Part

T = TypeVar("T")

ERRORS: dict[Part, type[Unavailable]] = {
    Part.STORE: StoreUnavailable,
    Part.LOG: LogUnavailable,
    Part.CACHE: CacheUnavailable,
    Part.QUEUE: QueueUnavailable,
    Part.PROVIDER: Unavailable,
}

SPLIT = (
    "append",
    "write",
    "compare_and_set",
    "record",
    "store_plans",
    "insert",
    "announce",
    "enqueue",
    "write_ahead",
    "close",
    "unlist",
)
"""Calls whose ports allow that only part of the argument took effect."""

WITHOUT_EFFECT = ("poll",)
"""Calls without an outside effect: a failed one has no effect at all."""


class Gate(Protocol):
    """The scheduler, as a proxied call sees it."""

    def stop(self, label: str, part: Part) -> FailureMode | None:
        """Let other threads run and return how the call must fail. An exception raised here ends the thread."""
        ...

    def passed(self, label: str) -> None:
        """Let other threads run after the effect."""
        ...

    async def suspend(self, label: str) -> None:
        """Let other tasks of the event loop run after the effect of an asynchronous call."""
        ...


def proxied(port: T, name: str, part: Part, gate: Gate) -> T:
    return cast(T, PortProxy(port, name, part, gate))


@dataclass(frozen=True, slots=True)
class PortProxy:
    port: object
    name: str
    part: Part
    gate: Gate
    _wrappers: dict[str, Callable[..., Any]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Wrappers by method: a run calls each of them thousands of times."""

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if (wrapper := self._wrappers.get(method)) is None:
            wrapper = self._wrappers[method] = self._wrap(method)
        return wrapper

    def _wrap(self, method: str) -> Callable[..., Any]:
        call = getattr(self.port, method)
        label = f"{self.name}.{method}"

        def synchronous(*arguments: Any, **keywords: Any) -> Any:
            how = self.gate.stop(label, self.part)
            if (
                how is FailureMode.BEFORE
                or (how is FailureMode.HALF and method not in SPLIT)
                or (how and method in WITHOUT_EFFECT)
            ):
                raise ERRORS[self.part](label)
            if how is FailureMode.HALF:
                call(*_half(arguments), **keywords)
                raise ERRORS[self.part](label)
            result = call(*arguments, **keywords)
            self.gate.passed(label)
            if how is FailureMode.AFTER:
                raise ERRORS[self.part](label)
            return result

        async def asynchronous(*arguments: Any, **keywords: Any) -> Any:
            how = self.gate.stop(label, self.part)
            if how in (FailureMode.BEFORE, FailureMode.HALF):
                raise ERRORS[self.part](label)
            result = await call(*arguments, **keywords)
            self.gate.passed(label)
            await self.gate.suspend(label)
            if how is FailureMode.AFTER:
                raise ERRORS[self.part](label)
            return result

        return asynchronous if iscoroutinefunction(call) else synchronous


def _half(arguments: Sequence[Any]) -> list[Any]:
    """Return the arguments as after a partial failure.

    A single list is cut in half. Of several lists the first one stays whole, because it is written first, and the
    others are empty.
    """
    lists = [i for i, argument in enumerate(arguments) if isinstance(argument, (list, tuple))]
    cut = {lists[0]: len(arguments[lists[0]]) // 2} if len(lists) == 1 else dict.fromkeys(lists[1:], 0)
    return [argument[: cut[i]] if i in cut else argument for i, argument in enumerate(arguments)]

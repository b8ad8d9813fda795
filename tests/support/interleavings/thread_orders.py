"""Runs a few threads in every possible order of their port calls."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from greenlet import getcurrent, greenlet

from tests.support.simulator.script import FailureMode, Part

Work = Callable[[], object]
MOST_ORDERS = 20_000
"""A scenario with more is too large to be tried in every order."""


@dataclass(slots=True, kw_only=True)
class Order:
    """One order of the threads' steps: the choices of a prefix, then the first option each time."""

    prefix: Sequence[int] = ()
    most_switches: int
    """How many times a thread that could go on may still have to wait for another one."""
    choices: list[tuple[int, int]] = field(default_factory=list)
    """Each choice made, and how many options there were."""

    def choose(self, threads: Sequence[str], current: str | None) -> str:
        """Return the thread that makes the next step."""
        options = list(threads)
        if current in options:
            options.remove(current)
            options.insert(0, current)
            if self.most_switches == 0:
                del options[1:]
        at = len(self.choices)
        choice = self.prefix[at] if at < len(self.prefix) else 0
        self.choices.append((choice, len(options)))
        if current in options and choice > 0:
            self.most_switches -= 1
        return options[choice]

    def following(self) -> Sequence[int] | None:
        """Return the prefix of the next order, or None after the last one."""
        choices = list(self.choices)
        while choices:
            choice, options = choices.pop()
            if choice + 1 < options:
                return [*(made for made, _ in choices), choice + 1]
        return None


def orders(most_switches: int) -> Iterator[Order]:
    """Iterate over all orders. Each has to be run before the next is asked for."""
    prefix: Sequence[int] = ()
    for _ in range(MOST_ORDERS):
        order = Order(prefix=prefix, most_switches=most_switches)
        yield order
        following = order.following()
        if following is None:
            return
        prefix = following
    raise AssertionError(f"more than {MOST_ORDERS} orders")


class Threads:
    """Threads that stop at every call of a proxied port. It is a gate of the simulator's proxies."""

    def __init__(self, *, stops_behind: bool = False, atomic: Collection[str] = ()) -> None:
        self.steps: list[str] = []
        """Calls in order, each with its thread."""
        self._stops_behind = stops_behind
        """Whether a thread stops again before it goes on with the answer. It matters where threads share memory."""
        self._atomic = atomic
        """Threads that stop at no call."""
        self._hub = getcurrent()
        self._current = ""

    def run(self, work: Mapping[str, Work], order: Order) -> None:
        """Run all threads to their ends, in this order."""
        threads = {name: greenlet(call) for name, call in work.items()}
        current: str | None = None
        while threads:
            current = order.choose([*threads], current)
            self._current = current
            threads[current].switch()
            if threads[current].dead:
                self.steps.append(f"{current} ends")
                del threads[current]

    def stop(self, label: str, part: Part) -> FailureMode | None:
        self._stop(label)
        return None

    async def suspend(self, label: str) -> None:
        """Do nothing: `passed` has let other threads run."""

    def passed(self, label: str) -> None:
        if self._stops_behind:
            self._stop(f"behind {label}")

    def pause(self, label: str) -> None:
        """Stop where no port is called, also in an atomic thread."""
        name = self._current
        self._hub.switch()
        self.steps.append(f"{name}: {label}")

    def _stop(self, label: str) -> None:
        if getcurrent() is not self._hub and self._current not in self._atomic:
            self.pause(label)

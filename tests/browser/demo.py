"""A real `notifier demo` in a process of its own, with a world that is small enough to be there at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from notifier.testing.demo import Demo

FOLLOWERS = 20_000_000


@contextmanager
def demo(data: Path, said: list[str] | None = None) -> Iterator[str]:
    """Its address, once its world is whole; it is told to stop as by Ctrl-C, and must end cleanly.

    What it said is added to `said` at its end.
    """
    with Demo(data=data, words=("--followers", str(FOLLOWERS))) as shown:
        shown.whole()
        yield shown.url
    if said is not None:
        said.append(shown.said())

"""Progress of what takes a while."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from notifier.cli.screen import console, watched


@contextmanager
def progress(doing: str, steps: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar where somebody watches, silence elsewhere."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    seen = not quiet and watched(sys.stderr)
    columns = (TextColumn(doing), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(sys.stderr), transient=True, disable=not seen) as shown:
        task = shown.add_task(doing, total=steps)
        yield lambda done: shown.advance(task, done)

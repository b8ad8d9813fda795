"""The progress bar of long commands."""

import pytest
from rich.progress import Progress, TaskID

from notifier.cli.output import progress


def test_progress_bar_advances_towards_its_total(monkeypatch: pytest.MonkeyPatch) -> None:
    bars: list[Progress] = []
    original_start = Progress.start

    def start(bar: Progress) -> None:
        bars.append(bar)
        original_start(bar)

    monkeypatch.setattr(Progress, "start", start)
    with progress("reading", 8, quiet=True) as advance:
        advance(6)
        [bar] = bars
        assert bar.tasks[TaskID(0)].percentage == 75

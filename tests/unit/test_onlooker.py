"""The onlooker: which answers are right while the store is away."""

from pathlib import Path

import pytest

from notifier.devkit.check.faults import ANSWERED_WITHIN, Onlooker
from notifier.devkit.check.http_client import Answer
from notifier.devkit.check.instance import Instance


def ok(answer: Answer, *, killed: bool = False) -> bool:
    return Onlooker(instance=Instance(data=Path()), token=str, people=(), killed=killed, answers=[answer]).finding().ok


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=200, body={"partial": False}),
        Answer(status=200, body={"partial": True}),
        Answer(status=503, seconds=ANSWERED_WITHIN),
    ],
)
def test_a_tab_is_whole_or_partial_or_refused(answer: Answer) -> None:
    assert ok(answer)


@pytest.mark.parametrize("answer", [Answer(status=500), Answer(status=503, seconds=ANSWERED_WITHIN + 0.1)])
def test_neither_failing_nor_late(answer: Answer) -> None:
    assert not ok(answer)
    assert not ok(answer, killed=True)


def test_nobody_answers_only_where_the_api_is_killed() -> None:
    gone = Answer(status=0)
    assert not ok(gone)
    assert ok(gone, killed=True)

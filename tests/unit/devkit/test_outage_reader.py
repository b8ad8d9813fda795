"""The onlooker: which answers are right while the store is away."""

from pathlib import Path

import pytest

from notifier.devkit.check.faults import ANSWERED_WITHIN, Onlooker
from notifier.devkit.check.http_client import HttpResponse
from notifier.devkit.check.instance import Instance


def ok(answer: HttpResponse, *, killed: bool = False) -> bool:
    return Onlooker(instance=Instance(data=Path()), token=str, people=(), killed=killed, answers=[answer]).finding().ok


@pytest.mark.parametrize(
    "answer",
    [
        HttpResponse(status=200, body={"partial": False}),
        HttpResponse(status=200, body={"partial": True}),
        HttpResponse(status=503, seconds=ANSWERED_WITHIN),
    ],
)
def test_a_tab_is_whole_or_partial_or_refused(answer: HttpResponse) -> None:
    assert ok(answer)


@pytest.mark.parametrize("answer", [HttpResponse(status=500), HttpResponse(status=503, seconds=ANSWERED_WITHIN + 0.1)])
def test_neither_failing_nor_late(answer: HttpResponse) -> None:
    assert not ok(answer)
    assert not ok(answer, killed=True)


def test_nobody_answers_only_where_the_api_is_killed() -> None:
    gone = HttpResponse(status=0)
    assert not ok(gone)
    assert ok(gone, killed=True)

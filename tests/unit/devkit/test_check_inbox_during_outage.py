"""The inbox observer accepts only certain responses while the store is unavailable."""

from pathlib import Path

import pytest

from notifier.devkit.check.check_inboxes import MAX_RESPONSE_SECONDS, InboxObserver
from notifier.devkit.check.http_client import HttpResponse
from notifier.devkit.check.notifier_and_engine_processes import Instance


def ok(response: HttpResponse, *, killed: bool = False) -> bool:
    return (
        InboxObserver(instance=Instance(data=Path()), token=str, users=(), api_is_killed=killed, responses=[response])
        .finding()
        .ok
    )


@pytest.mark.parametrize(
    "response",
    [
        HttpResponse(status=200, body={"partial": False}),
        HttpResponse(status=200, body={"partial": True}),
        HttpResponse(status=503, seconds=MAX_RESPONSE_SECONDS),
    ],
)
def test_inbox_may_be_complete_partial_or_refused(response: HttpResponse) -> None:
    assert ok(response)


@pytest.mark.parametrize(
    "response", [HttpResponse(status=500), HttpResponse(status=503, seconds=MAX_RESPONSE_SECONDS + 0.1)]
)
def test_errors_and_late_responses_fail(response: HttpResponse) -> None:
    assert not ok(response)
    assert not ok(response, killed=True)


def test_missing_response_passes_only_if_api_was_killed() -> None:
    no_response = HttpResponse(status=0)
    assert not ok(no_response)
    assert ok(no_response, killed=True)

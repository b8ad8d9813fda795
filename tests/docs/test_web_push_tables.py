"""docs/push-web.md, and the circuit breaker in docs/push.md, match the code."""

import pytest

from notifier.adapters.push.webpush.encrypted_message import MAX_CONTENT_BYTES, OVERHEAD_BYTES, PADDING_STEP
from notifier.adapters.push.webpush.responses import BAD_TOKEN, NO_KEY, OTHER_KEY, receipt_of
from notifier.adapters.push.webpush.vapid import KeyReputation
from notifier.domain.push.circuit_breaker import BreakerSettings
from notifier.domain.push.device import MAX_DEVICES
from notifier.domain.push.device_validation import KNOWN_HOSTS
from notifier.domain.push.receipt import Accepted, ConfigError, DropDevice, PayloadError, Receipt, RetryAt
from notifier.ports.push import Reply
from tests.docs.document_pages import Page
from tests.support.domain_examples import NOON

PAGE = Page("docs/push-web.md")
PIPELINE = Page("docs/push.md")
RECEIPTS: dict[type[Receipt], str] = {
    Accepted: "accepted",
    DropDevice: "drop",
    RetryAt: "retry",
    PayloadError: "payload error",
    ConfigError: "configuration error",
}


@pytest.mark.parametrize("host", KNOWN_HOSTS)
def test_every_push_service_is_listed(host: str) -> None:
    assert f"`{host}`" in PAGE.text


@pytest.mark.parametrize("status", [200, 201, 301, 302, 308, 404, 406, 408, 410, 413, 421, 425, 429])
def test_every_special_status_is_in_the_table(status: int) -> None:
    receipt = receipt_of(Reply(status=status), "https://push.example", KeyReputation(), NOON, 0.0)
    rows = {cell: meaning for cell, meaning, _ in PAGE.table("answer")}
    [meaning] = [meaning for cell, meaning in rows.items() if str(status) in cell] or [rows[f"{_table_row(status)}"]]
    assert meaning == RECEIPTS[type(receipt)]


def _table_row(status: int) -> str:
    return "2xx" if status < 300 else "other 3xx"


def test_every_token_error_phrase_is_in_the_table() -> None:
    answer_cells = " ".join(row[0] for row in PAGE.table("answer")).lower()
    phrases = (*BAD_TOKEN.values(), *OTHER_KEY.values(), *NO_KEY.values())
    assert [phrase for phrase in phrases if phrase not in answer_cells] == []


def test_documented_numbers_equal_those_of_the_code() -> None:
    settings = BreakerSettings()
    for phrase in (
        f"multiple of {PADDING_STEP} bytes",
        f"has {MAX_CONTENT_BYTES:,} bytes",
        f"body {MAX_CONTENT_BYTES + OVERHEAD_BYTES:,} bytes",
        f"more than {MAX_DEVICES} refusals",
    ):
        assert phrase in PAGE.text
    for phrase in (
        f"{settings.failures_to_open} failures in a row",
        f"After {int(settings.open_for.total_seconds())} seconds",
    ):
        assert phrase in PIPELINE.text
    assert settings.successes_to_close == 3
    assert "three successes in a row close it" in PIPELINE.text

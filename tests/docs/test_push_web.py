"""The page of Web Push says what the code does: whom it sends to, what answers mean, when a breaker opens."""

import pytest

from notifier.adapters.push.webpush.encryption import MOST, OVERHEAD, STEP
from notifier.adapters.push.webpush.responses import BAD_TOKEN, NO_KEY, OTHER_KEY, receipt_of
from notifier.adapters.push.webpush.vapid import KeyReputation
from notifier.domain.push.circuit_breaker import BreakerSettings
from notifier.domain.push.device import MOST_DEVICES
from notifier.domain.push.device_address import KNOWN
from notifier.domain.push.receipt import Accepted, ConfigError, DropToken, PayloadError, Receipt, RetryAt
from notifier.ports.push import Reply
from tests.docs.pages import Page
from tests.support.examples import NOON

PAGE = Page("docs/push-web.md")
RECEIPTS: dict[type[Receipt], str] = {
    Accepted: "accepted",
    DropToken: "drop token",
    RetryAt: "retry",
    PayloadError: "payload error",
    ConfigError: "config error",
}


@pytest.mark.parametrize("host", KNOWN)
def test_every_push_service_is_listed(host: str) -> None:
    assert f"`{host}`" in PAGE.text


@pytest.mark.parametrize("status", [200, 201, 301, 302, 308, 404, 406, 408, 410, 413, 421, 425, 429])
def test_every_status_that_means_something_of_its_own_is_in_the_table(status: int) -> None:
    receipt = receipt_of(Reply(status=status), "https://push.example", KeyReputation(), NOON, 0.0)
    rows = {cell: means for cell, means, _ in PAGE.table("answer")}
    [means] = [means for cell, means in rows.items() if str(status) in cell] or [rows[f"{_class(status)}"]]
    assert means == RECEIPTS[type(receipt)]


def _class(status: int) -> str:
    return "2xx" if status < 300 else "other 3xx"


def test_every_word_that_a_token_is_refused_with_is_in_the_table() -> None:
    answers = " ".join(row[0] for row in PAGE.table("answer")).lower()
    said = (*BAD_TOKEN.values(), *OTHER_KEY.values(), *NO_KEY.values())
    assert [words for words in said if words not in answers] == []


def test_its_numbers_are_those_of_the_code() -> None:
    terms = BreakerSettings()
    for words in (
        f"multiple of {STEP} bytes",
        f"than {MOST + OVERHEAD:,} bytes",
        f"more than {MOST_DEVICES} refusals",
        f"{terms.failures} failures in a row",
        f"After {int(terms.rest.total_seconds())} seconds",
    ):
        assert words in PAGE.text
    assert terms.successes == 3
    assert "three successes in a row close it" in PAGE.text

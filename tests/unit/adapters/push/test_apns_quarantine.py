"""Quarantine of APNs devices that Apple may refuse, in the memory of one process."""

from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.adapters.push.apns.sender import Suspects
from notifier.domain.push.receipt import Accepted, ConfigError, DropToken, PayloadError, Receipt, RetryAt, Unknown
from tests.support.examples import NOON
from tests.support.push_builders import iphone

OLD, RECENT = iphone(1), replace(iphone(2), registered_at=NOON - timedelta(minutes=59))


def test_new_device_is_suspect_for_an_hour() -> None:
    suspects = Suspects()
    assert not suspects.doubts(OLD, NOON)
    assert suspects.doubts(RECENT, NOON)
    assert not suspects.doubts(RECENT, NOON + timedelta(minutes=1))


def test_registration_in_the_future_counts_as_now() -> None:
    assert Suspects().doubts(replace(OLD, registered_at=NOON + timedelta(days=1)), NOON)


def test_accepted_alert_ends_quarantine_and_refusal_starts_it() -> None:
    suspects = Suspects()
    for device in (OLD, RECENT):
        suspects.note(device, DropToken(reason="BadDeviceToken"), NOON)
        assert suspects.doubts(device, NOON + timedelta(days=1))
        suspects.note(device, Accepted(), NOON)
        assert not suspects.doubts(device, NOON)


def test_reregistered_token_keeps_its_state() -> None:
    suspects = Suspects()
    suspects.note(RECENT, Accepted(), NOON)
    assert not suspects.doubts(replace(RECENT, registered_at=NOON), NOON)


@pytest.mark.parametrize(
    "receipt",
    [
        RetryAt(at=NOON, reason="r"),
        PayloadError(reason="r"),
        ConfigError(reason="r"),
        Unknown(reason="r"),
    ],
    ids=lambda receipt: type(receipt).__name__,
)
def test_receipt_not_about_the_device_changes_nothing(receipt: Receipt) -> None:
    suspects = Suspects()
    for device in (OLD, RECENT):
        before = suspects.doubts(device, NOON)
        suspects.note(device, receipt, NOON)
        assert suspects.doubts(device, NOON) == before


def test_memory_is_bounded_to_suspects() -> None:
    suspects = Suspects(remembered=2)
    suspects.note(OLD, Accepted(), NOON)
    refused = [iphone(n) for n in range(10, 13)]
    for device in refused:
        suspects.note(device, DropToken(reason="Unregistered"), NOON)
    assert [suspects.doubts(device, NOON) for device in (OLD, *refused)] == [False, False, True, True]

"""Quarantine of APNs devices that Apple may refuse, in the memory of one process."""

from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.adapters.push.apns.sender import SuspectDevices
from notifier.domain.push.receipt import Accepted, ConfigError, DropDevice, PayloadError, Receipt, RetryAt, Unknown
from tests.support.apns_and_fcm_senders import iphone
from tests.support.domain_examples import NOON

OLD, RECENT = iphone(1), replace(iphone(2), registered_at=NOON - timedelta(minutes=59))


def test_new_device_is_suspect_for_an_hour() -> None:
    suspects = SuspectDevices()
    assert not suspects.is_suspect(OLD, NOON)
    assert suspects.is_suspect(RECENT, NOON)
    assert not suspects.is_suspect(RECENT, NOON + timedelta(minutes=1))


def test_registration_in_the_future_counts_as_now() -> None:
    assert SuspectDevices().is_suspect(replace(OLD, registered_at=NOON + timedelta(days=1)), NOON)


def test_accepted_alert_ends_quarantine_and_refusal_starts_it() -> None:
    suspects = SuspectDevices()
    for device in (OLD, RECENT):
        suspects.record(device, DropDevice(reason="BadDeviceToken"), NOON)
        assert suspects.is_suspect(device, NOON + timedelta(days=1))
        suspects.record(device, Accepted(), NOON)
        assert not suspects.is_suspect(device, NOON)


def test_reregistered_token_keeps_its_state() -> None:
    suspects = SuspectDevices()
    suspects.record(RECENT, Accepted(), NOON)
    assert not suspects.is_suspect(replace(RECENT, registered_at=NOON), NOON)


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
    suspects = SuspectDevices()
    for device in (OLD, RECENT):
        before = suspects.is_suspect(device, NOON)
        suspects.record(device, receipt, NOON)
        assert suspects.is_suspect(device, NOON) == before


def test_only_the_latest_refused_devices_are_remembered() -> None:
    suspects = SuspectDevices(capacity=2)
    suspects.record(OLD, Accepted(), NOON)
    refused = [iphone(n) for n in range(10, 13)]
    for device in refused:
        suspects.record(device, DropDevice(reason="Unregistered"), NOON)
    assert [suspects.is_suspect(device, NOON) for device in (OLD, *refused)] == [False, False, True, True]

"""Parsing of the scripts that control fake providers."""

import re
from datetime import timedelta

import pytest

from notifier.devkit.fake_providers.behavior import FOREVER, Behavior, FaultWindow, ProviderScript
from notifier.domain.ids import Platform

SECOND = timedelta(seconds=1)


def read(text: str, platform: Platform = Platform.APNS) -> Behavior:
    return Behavior.read(text, platform)


def test_every_setting_is_parsed() -> None:
    behavior = read("gone=2%, elsewhere=0.5%,limited=30s,down=500ms,stall=2m,after=10s,seed=7")
    assert behavior.script == ProviderScript(
        seed=7,
        gone_share=0.02,
        elsewhere_share=0.005,
        limited=FaultWindow(after=10 * SECOND, duration=30 * SECOND),
        down=FaultWindow(after=10 * SECOND, duration=SECOND / 2),
    )
    assert behavior.stall_window == FaultWindow(after=10 * SECOND, duration=120 * SECOND)
    http2_behavior = read("goaway=1000,cut=500,streams=1,latency=50ms").http2
    assert (http2_behavior.goaway_after, http2_behavior.cut_after, http2_behavior.max_concurrent_streams) == (
        1_000,
        500,
        1,
    )
    assert http2_behavior.latency == SECOND / 20


def test_empty_script_uses_the_provider_defaults() -> None:
    assert [read("", platform).http2.max_concurrent_streams for platform in Platform] == [1_000, 100, 100]
    assert not read("").stall_window.is_active(timedelta())


def test_stall_without_duration_is_permanent() -> None:
    assert read("stall").stall_window == FaultWindow(duration=FOREVER)


def test_setting_can_be_limited_to_one_platform() -> None:
    script = "apns.stall,fcm.gone=100%,latency=1s"
    apns, fcm, web = (read(script, platform) for platform in Platform)
    assert [behavior.stall_window.is_active(SECOND) for behavior in (apns, fcm, web)] == [True, False, False]
    assert [behavior.script.gone_share for behavior in (apns, fcm, web)] == [0.0, 1.0, 0.0]
    assert {behavior.http2.latency for behavior in (apns, fcm, web)} == {SECOND}


def test_start_for_all_applies_to_fault_of_one_platform() -> None:
    apns, web = (read("after=10s,apns.stall", platform) for platform in (Platform.APNS, Platform.WEB))
    assert apns.stall_window == FaultWindow(after=10 * SECOND, duration=FOREVER)
    assert not web.stall_window.is_active(11 * SECOND)
    assert read(" ") == read("")


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("gone=2", "is invalid; write gone=2%"),
        ("gone=101%", "is invalid; write gone=2%"),
        ("gone=nan%", "is invalid; write gone=2%"),
        ("limited=30", "is invalid; write limited=30s"),
        ("goaway=0", "is invalid; write goaway=1000"),
        ("cut=many", "is invalid; write cut=500"),
        ("stahl", "'stahl' is not an option; choose from gone"),
        ("pager.stall", "choose from apns, fcm, web"),
        ("stall,stall=3s", "set twice for apns"),
        (",", "a comma without an option beside it"),
        ("gone=2%,", "a comma without an option beside it"),
        ("stall=0s", "'stall=0s' is invalid; write stall (forever) or stall=30s"),
        ("limited=0ms", "is invalid; write limited=30s"),
        ("down=0.0s", "is invalid; write down=30s"),
        ("after=10s", "'after=10s' sets the start of limited, down or stall, but the script has none of them"),
        ("gone=2%,fcm.after=1m,web.stall", "'fcm.after=1m' sets the start"),
    ],
)
@pytest.mark.parametrize("platform", [Platform.APNS, Platform.WEB])
def test_invalid_script_is_rejected_with_its_syntax(script: str, error: str, platform: Platform) -> None:
    with pytest.raises(ValueError, match=re.escape(error)):
        read(script, platform)

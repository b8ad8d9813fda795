"""Which fakes `notifier up` starts."""

from collections.abc import Mapping

import pytest

from notifier.cli.fakes import Fakes
from notifier.config import Settings
from notifier.domain.device import Platform

BY_HAND = {"NOTIFIER_PUSH_FCM_FAKE": "http://127.0.0.1:9002"}


def started(environment: Mapping[str, str]) -> Fakes:
    return Fakes.of(Settings.read(environment), lambda host, port: 9_100)


@pytest.mark.parametrize("fakes", ["auto", "on"])
def test_one_that_somebody_runs_is_sent_to_and_not_replaced(fakes: str) -> None:
    found = started(BY_HAND | {"NOTIFIER_PUSH_FAKES": fakes})
    assert set(found.ports) == {Platform.APNS, Platform.WEB}
    assert "NOTIFIER_PUSH_FCM_FAKE" not in found.environment


def test_a_demo_has_its_own_for_everybody() -> None:
    alone = Settings.read(BY_HAND | {"NOTIFIER_PUSH_FAKES": "off"}).push.alone
    assert all(alone.is_faked(platform) and not alone.of(platform).fake for platform in Platform)

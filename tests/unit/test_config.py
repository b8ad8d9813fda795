"""The settings, as the environment gives them."""

from datetime import timedelta
from pathlib import Path

import pytest

from notifier.config import Settings
from notifier.domain.errors import BadSetting


def test_without_an_environment_every_setting_has_its_default() -> None:
    assert Settings.read({}) == Settings()


def test_names_of_others_are_ignored() -> None:
    assert Settings.read({"PATH": "/bin", "PORT": "1", "NOTIFIER_UNKNOWN": "x"}) == Settings()


def test_a_setting_is_read_by_its_type() -> None:
    found = Settings.read(
        {
            "NOTIFIER_DATA": "/var/lib/n",
            "NOTIFIER_PORT": "0",
            "NOTIFIER_THRESHOLD": "5000",
            "NOTIFIER_REDIS_URL": "redis://cache/1",
        }
    )
    assert found == Settings(data=Path("/var/lib/n"), port=0, threshold=5_000, redis_url="redis://cache/1")


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("60", 60), ("0.25", 0.25)])
def test_durations_are_in_seconds(text: str, seconds: float) -> None:
    found = Settings.read({"NOTIFIER_COLLAPSE": text, "NOTIFIER_MONITOR_EVERY": text})
    assert found.collapse == found.monitor_every == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("name", "text"),
    [("PORT", "http"), ("PORT", ""), ("PORT", "8080.5"), ("COLLAPSE", "soon"), ("THRESHOLD", "many")],
)
def test_a_setting_that_can_t_be_read_is_refused_by_its_name(name: str, text: str) -> None:
    with pytest.raises(BadSetting, match=name.lower()):
        Settings.read({f"NOTIFIER_{name}": text})

"""The settings, as the environment gives them."""

from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import pytest

from notifier.config import RULES, Settings, refusal
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


@pytest.mark.parametrize(
    "text",
    ["", "https://app.example", "http://localhost:3000", "http://[::1]:8080,https://a.b-c.example:80,http://127.0.0.1"],
)
def test_origins_are_taken_as_browsers_write_them(text: str) -> None:
    assert Settings.read({"NOTIFIER_ORIGINS": text}).origins == text


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("60", 60), ("0.25", 0.25)])
def test_durations_are_in_seconds(text: str, seconds: float) -> None:
    assert Settings.read({"NOTIFIER_COLLAPSE": text}).collapse == timedelta(seconds=seconds)


NONSENSE = {
    "DATA": ["", " "],
    "PROFILE": ["", "em bedded"],
    "HOST": ["", " ", "a b"],
    "PORT": ["http", "", "8080.5", "-1", "65536", "nan"],
    "REDIS_URL": ["cache:6379", "http://cache", "redis://"],
    "THRESHOLD": ["many", "", "0", "-5", "1.5", "nan", "inf"],
    "COLLAPSE": ["soon", "null", "", "-1", "-0.001", "nan", "inf", "-inf", "1e300", "86401"],
    "MONITOR_EVERY": ["", "0", "-1", "nan", "inf", "3601"],
    "ORIGINS": [
        *("*", "https://*.example", "null", "app.example", "//app.example", "ftp://app.example", "https://"),
        *("https://app.example/", "https://app.example/x", "https://App.example", "HTTPS://app.example", " "),
        *("https://app.example:443", "http://app.example:80", "http://a:0", "http://a:65536", "http://a:x"),
        *("https://me@app.example", "https://a,", ",https://a", "https://a, https://b", "https://a;https://b"),
        *("https://a?", "https://a#", "https://ü.example", "https://a\r\nx: y", "https://a\n"),
    ],
    "LOG_LEVEL": ["", "loud"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in NONSENSE.items() for text in texts])
def test_nonsense_is_refused_in_one_sentence_with_the_variable_and_the_value(name: str, text: str) -> None:
    with pytest.raises(BadSetting) as caught:
        Settings.read({f"NOTIFIER_{name}": text})
    assert caught.value.detail.startswith(f"NOTIFIER_{name} is {text!r}; it must be ")
    assert caught.value.detail.count(". ") == 0


def test_a_refusal_shows_neither_a_secret_nor_a_password() -> None:
    for name, text in (("SECRET", "hunter2"), ("REDIS_URL", "http://me:hunter2@cache"), ("REDIS_URL", "me:hunter2@x")):
        with pytest.raises(BadSetting, match=f"NOTIFIER_{name} is ") as caught:
            Settings.read({f"NOTIFIER_{name}": text})
        assert "hunter2" not in str(caught.value)


def test_every_setting_has_a_rule_that_its_default_keeps() -> None:
    assert list(RULES) == [field.name for field in fields(Settings)]
    assert [name for name in RULES if refusal(name, getattr(Settings(), name))] == []

"""`notifier devices`: what an operator sees of a person's devices, and takes away."""

import json
from pathlib import Path

import pytest

from notifier.cli.context import opened
from notifier.config import Settings
from notifier.domain.ids import UserId
from notifier.domain.push.device import AppleToken, FirebaseToken
from notifier.flow.devices.registry import PhoneBook
from tests.cli.conftest import Notifier

TOKEN = "ab" * 30 + "12cd"


@pytest.fixture
def loaded(folder: Path, notifier: Notifier) -> Path:
    """u2, who has none by the fixture's formula, has a phone and a tablet, of which the switchboard hasn't heard."""
    words = ("--followers", "200", "--universe", "400", "--celebrities", "1")
    assert notifier("fixture", *words, "--data", str(folder)).exit_code == 0
    with opened(Settings(data=folder)) as place:
        ports = place.ports
        book = PhoneBook(devices=ports.devices, directory=ports.directory, log=ports.log, clock=ports.clock)
        member = book.member(UserId("u2"))
        book.register(member, AppleToken(token=TOKEN, topic="com.example.app"), locale="de", time_zone="UTC")
        book.register(member, FirebaseToken(token="t" * 140), locale="en", time_zone="Asia/Tokyo")
    return folder


def test_devices_are_listed_without_their_addresses(loaded: Path, notifier: Notifier) -> None:
    for words in (("devices", "u2"), ("devices", "@u2", "--json")):
        found = notifier(*words, "--data", str(loaded))
        assert found.exit_code == 0, found.output
        assert "12cd" in found.stdout
        assert not any(word in found.stdout for word in (TOKEN[:8], "ttttt"))
    told = json.loads(notifier("devices", "u2", "--json", "--data", str(loaded)).stdout)
    assert [(one["platform"], one["app"], one["last_four"], one["locale"]) for one in told["devices"]] == [
        ("fcm", None, "tttt", "en"),
        ("apns", "com.example.app", "12cd", "de"),
    ]


def test_one_is_taken_away_by_its_id_and_only_once(loaded: Path, notifier: Notifier) -> None:
    told = json.loads(notifier("devices", "u2", "--json", "--data", str(loaded)).stdout)
    id = told["devices"][0]["id"]
    assert notifier("devices", "u4", "--remove", id, "--data", str(loaded)).exit_code == 2
    left = notifier("devices", "u2", "--remove", id, "--json", "--data", str(loaded))
    assert [one["platform"] for one in json.loads(left.stdout)["devices"]] == ["apns"]
    again = notifier("devices", "u2", "--remove", id, "--data", str(loaded))
    assert (again.exit_code, again.stderr.strip()) == (2, f"There is no such thing. u2 has no device {id}.")


def test_who_has_none_is_told_in_a_sentence_and_who_isn_t_known_is_refused(loaded: Path, notifier: Notifier) -> None:
    assert "u4 has no device." in notifier("devices", "u4", "--data", str(loaded)).stdout
    assert notifier("devices", "stranger", "--data", str(loaded)).exit_code == 2
    assert notifier("devices", "u2", "--remove", "all of them", "--data", str(loaded)).exit_code == 2
    assert notifier("devices", "u2", "--data", str(loaded / "nowhere")).exit_code == 3

"""The phones on the demo's page: what the fakes say that the four people's devices rang for, and nobody else's."""

import json
from pathlib import Path
from typing import Any

from notifier.api.demo import phones as ringing
from notifier.api.demo.phones import tail
from notifier.domain.ids import UserId
from notifier.domain.push.device import (
    Address,
    AppleToken,
    Device,
    FirebaseInstallation,
    FirebaseToken,
    WebSubscription,
)
from tests.http.demo_client import Visitor, demo_visitor
from tests.http.problems import assert_problem

APPLE = AppleToken(token="ab" * 32, topic="com.example.app")
BROWSER = WebSubscription(endpoint="https://push.example/send/u2?x=1", key=b"k" * 65, secret=b"s" * 16)
FID = FirebaseInstallation(fid="dIsVQ2QVRT-TW7L6VfeAMh")


def registered(visitor: Visitor, user: str, address: Address, locale: str = "en") -> None:
    house = visitor.house
    member = house.directory.accounts([UserId(user)])[UserId(user)].member
    house.ports.devices.write([Device(member=member, address=address, locale=locale, registered_at=house.clock.now())])


def line(to: str, text: str = "ada mentioned @nova", /, **more: object) -> str:
    said = {
        "at": "2026-01-05T12:00:03+00:00",
        "platform": "apns",
        "to": to,
        "place": "a place",
        "id": "i",
        "text": text,
    }
    return json.dumps(said | more) + "\n"


def phones(visitor: Visitor, after: int = 0) -> Any:
    answer = visitor.client.get(f"/demo/phones?after={after}", headers=visitor.key)
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store"), answer.text
    return answer.json()


def rang(found: Any) -> dict[str, list[str]]:
    return {phone["user"]: [alert["text"] for alert in phone["alerts"]] for phone in found["phones"]}


def test_each_of_the_four_has_a_phone_that_shows_what_it_rang_for(tmp_path: Path) -> None:
    file = tmp_path / "alerts.ndjson"
    with demo_visitor(tmp_path) as visitor:
        registered(visitor, "u1", APPLE, locale="de-AT")
        registered(visitor, "u2", BROWSER)
        registered(visitor, "u2", FID)
        empty = phones(visitor)
        assert [(one["kind"], one["user"], one["platforms"], one["alerts"]) for one in empty["phones"]] == [
            ("vip", "u1", ["apns"], []),
            ("active", "u2", ["fcm", "web"], []),
            ("occasional", "u3", [], []),
            ("away", "bob", [], []),
        ]
        file.write_text(line("ab" * 32, "ada hat @nova erwähnt") + line("fixture-17") + line("/send/u2"))
        found = phones(visitor)
        assert rang(found) == {"u1": ["ada hat @nova erwähnt"], "u2": ["ada mentioned @nova"], "u3": [], "bob": []}
        assert found["phones"][0]["alerts"] == [
            {
                "at": "2026-01-05T12:00:03Z",
                "place": "a place",
                "text": "ada hat @nova erwähnt",
                "language": "de",
            }
        ]


def test_a_look_tells_what_came_since_the_last_one(tmp_path: Path) -> None:
    file = tmp_path / "alerts.ndjson"
    with demo_visitor(tmp_path) as visitor:
        registered(visitor, "u1", APPLE)
        first = line("ab" * 32, "one")
        file.write_text(first + line("ab" * 32, "two")[:-9])
        found = phones(visitor)
        assert (rang(found)["u1"], found["after"]) == (["one"], len(first))
        file.write_text(first + line("ab" * 32, "two"))
        found = phones(visitor, found["after"])
        assert rang(found)["u1"] == ["two"]
        assert rang(phones(visitor, found["after"]))["u1"] == []
        file.write_text(line("ab" * 32, "anew"))
        assert rang(phones(visitor, found["after"]))["u1"] == ["anew"]


def test_whatever_is_no_alert_is_passed_over(tmp_path: Path) -> None:
    other = {"burst": "mention:nova#1", "people": 3, "first": [1, 2, 3]}
    strange = ["", "{", '{"at": 5}', json.dumps(other), line("", to=17), line("ab" * 32, at="yesterday"), "\xff"]
    with demo_visitor(tmp_path) as visitor:
        registered(visitor, "u1", FirebaseToken(token="t" * 40))
        (tmp_path / "alerts.ndjson").write_text("\n".join(strange) + "\n" + line("t" * 40), encoding="latin-1")
        assert rang(phones(visitor)) == {"u1": ["ada mentioned @nova"], "u2": [], "u3": [], "bob": []}


def test_of_very_many_lines_the_last_are_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "alerts.ndjson"
    file.write_bytes(b"x" * 98 + b"\n" + (b"y" * 1_023 + b"\n") * (ringing.AT_ONCE // 1_024))
    lines, after = tail(file, 0)
    assert (len(lines), set(lines), after) == (ringing.AT_ONCE // 1_024, {b"y" * 1_023}, file.stat().st_size)
    assert tail(file, after) == ([], after)


def test_a_place_that_can_be_none_is_refused(tmp_path: Path) -> None:
    with demo_visitor(tmp_path) as visitor:
        for after in ("-1", "x", ""):
            answer = visitor.client.get(f"/demo/phones?after={after}", headers=visitor.key)
            assert_problem(answer, 400, "refused")

"""The phones on the demo's page show the alerts of the demo people's devices."""

import json
from pathlib import Path
from typing import Any

from notifier.api.demo import phone_alerts as phones_module
from notifier.api.demo.phone_alerts import lines_after
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
from tests.http.error_response_checks import assert_problem

APPLE = AppleToken(token="ab" * 32, topic="com.example.app")
BROWSER = WebSubscription(endpoint="https://push.example/send/u2?x=1", key=b"k" * 65, secret=b"s" * 16)
FID = FirebaseInstallation(fid="dIsVQ2QVRT-TW7L6VfeAMh")


def register(visitor: Visitor, user: str, address: Address, locale: str = "en") -> None:
    backend = visitor.backend
    member = backend.directory.accounts([UserId(user)])[UserId(user)].member
    backend.ports.devices.write(
        [Device(member=member, address=address, locale=locale, registered_at=backend.clock.now())]
    )


def alert_line(address: str, text: str = "ada mentioned @nova", /, **fields: object) -> str:
    alert = {
        "at": "2026-01-05T12:00:03+00:00",
        "platform": "apns",
        "to": address,
        "place": "a place",
        "id": "i",
        "text": text,
    }
    return json.dumps(alert | fields) + "\n"


def phones(visitor: Visitor, after: int = 0) -> Any:
    response = visitor.client.get(f"/demo/phones?after={after}", headers=visitor.key)
    assert (response.status_code, response.headers["cache-control"]) == (200, "no-store"), response.text
    return response.json()


def texts_by_user(page: Any) -> dict[str, list[str]]:
    return {phone["user"]: [alert["text"] for alert in phone["alerts"]] for phone in page["phones"]}


def test_demo_people_have_phones_that_show_their_alerts(tmp_path: Path) -> None:
    file = tmp_path / "alerts.ndjson"
    with demo_visitor(tmp_path) as visitor:
        register(visitor, "u1", APPLE, locale="de-AT")
        register(visitor, "u2", BROWSER)
        register(visitor, "u2", FID)
        before = phones(visitor)
        assert [(phone["kind"], phone["user"], phone["platforms"], phone["alerts"]) for phone in before["phones"]] == [
            ("vip", "u1", ["apns"], []),
            ("active", "u2", ["fcm", "web"], []),
            ("occasional", "u3", [], []),
            ("away", "bob", [], []),
        ]
        file.write_text(
            alert_line("ab" * 32, "ada hat @nova erwähnt") + alert_line("fixture-17") + alert_line("/send/u2")
        )
        page = phones(visitor)
        assert texts_by_user(page) == {
            "u1": ["ada hat @nova erwähnt"],
            "u2": ["ada mentioned @nova"],
            "u3": [],
            "bob": [],
        }
        assert page["phones"][0]["alerts"] == [
            {
                "at": "2026-01-05T12:00:03Z",
                "place": "a place",
                "text": "ada hat @nova erwähnt",
                "language": "de",
            }
        ]


def test_phones_return_alerts_since_the_last_request(tmp_path: Path) -> None:
    file = tmp_path / "alerts.ndjson"
    with demo_visitor(tmp_path) as visitor:
        register(visitor, "u1", APPLE)
        first = alert_line("ab" * 32, "one")
        file.write_text(first + alert_line("ab" * 32, "two")[:-9])
        page = phones(visitor)
        assert (texts_by_user(page)["u1"], page["after"]) == (["one"], len(first))
        file.write_text(first + alert_line("ab" * 32, "two"))
        page = phones(visitor, page["after"])
        assert texts_by_user(page)["u1"] == ["two"]
        assert texts_by_user(phones(visitor, page["after"]))["u1"] == []
        file.write_text(alert_line("ab" * 32, "anew"))
        assert texts_by_user(phones(visitor, page["after"]))["u1"] == ["anew"]


def test_malformed_alert_lines_are_skipped(tmp_path: Path) -> None:
    summary = {"burst": "mention:nova#1", "people": 3, "first": [1, 2, 3]}
    malformed = [
        "",
        "{",
        '{"at": 5}',
        json.dumps(summary),
        alert_line("", address=17),
        alert_line("ab" * 32, at="yesterday"),
        "\xff",
    ]
    with demo_visitor(tmp_path) as visitor:
        register(visitor, "u1", FirebaseToken(token="t" * 40))
        (tmp_path / "alerts.ndjson").write_text("\n".join(malformed) + "\n" + alert_line("t" * 40), encoding="latin-1")
        assert texts_by_user(phones(visitor)) == {"u1": ["ada mentioned @nova"], "u2": [], "u3": [], "bob": []}


def test_only_the_last_lines_of_a_long_file_are_read(tmp_path: Path) -> None:
    file = tmp_path / "alerts.ndjson"
    file.write_bytes(b"x" * 98 + b"\n" + (b"y" * 1_023 + b"\n") * (phones_module.MAX_READ_BYTES // 1_024))
    lines, after = lines_after(file, 0)
    assert (len(lines), set(lines), after) == (
        phones_module.MAX_READ_BYTES // 1_024,
        {b"y" * 1_023},
        file.stat().st_size,
    )
    assert lines_after(file, after) == ([], after)


def test_invalid_position_is_refused(tmp_path: Path) -> None:
    with demo_visitor(tmp_path) as visitor:
        for after in ("-1", "x", ""):
            response = visitor.client.get(f"/demo/phones?after={after}", headers=visitor.key)
            assert_problem(response, 400, "refused")

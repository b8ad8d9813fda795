"""The envelope that other people's checks rely on."""

import json

from notifier.cli.output import Check, envelope


def test_the_envelope_has_its_keys_and_no_others() -> None:
    found = envelope("embedded", 7, [Check(name="p0_p95", ok=True, value=0.2, limit=1, unit="s", n=200)])
    assert list(found) == ["schema", "profile", "seed", "machine", "checks", "ok"]
    assert found["schema"] == "notifier.check/1"
    assert found["checks"] == [
        {"name": "p0_p95", "ok": True, "value": 0.2, "limit": 1, "unit": "s", "n": 200, "detail": ""}
    ]
    assert json.loads(json.dumps(found)) == found


def test_one_failure_fails_all_and_nothing_checked_is_no_success() -> None:
    good, bad = Check(name="a", ok=True), Check(name="b", ok=False)
    assert envelope("embedded", None, [good])["ok"]
    assert not envelope("embedded", None, [good, bad])["ok"]
    assert not envelope("embedded", None, [])["ok"]

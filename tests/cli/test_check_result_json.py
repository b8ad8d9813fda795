"""The JSON envelope of checks, which users' scripts rely on."""

import json

from notifier.cli.output import Check, envelope


def test_envelope_has_exactly_its_documented_keys() -> None:
    report = envelope("embedded", 7, [Check(name="p0_p95", ok=True, value=0.2, limit=1, unit="s", n=200)])
    assert list(report) == ["schema", "profile", "seed", "machine", "checks", "ok"]
    assert report["schema"] == "notifier.check/1"
    assert report["checks"] == [
        {"name": "p0_p95", "ok": True, "value": 0.2, "limit": 1, "unit": "s", "n": 200, "detail": ""}
    ]
    assert json.loads(json.dumps(report)) == report


def test_envelope_fails_on_one_failure_or_without_checks() -> None:
    good, bad = Check(name="a", ok=True), Check(name="b", ok=False)
    assert envelope("embedded", None, [good])["ok"]
    assert not envelope("embedded", None, [good, bad])["ok"]
    assert not envelope("embedded", None, [])["ok"]

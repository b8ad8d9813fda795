"""The command `storm` sends at the given rate."""

import json
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from notifier.cli import running_service
from notifier.cli.commands import send_events


@pytest.mark.parametrize("rate", [10, 15, 99])
def test_storm_sends_its_rate_in_each_second(rate: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def accept(url: str, key: str, body: bytes, content_type: str) -> dict[str, object]:
        sizes.append(len(json.loads(body)))
        return {"results": [{"status": "accepted"}] * sizes[-1]}

    monkeypatch.setattr(
        running_service, "read_ready", lambda data: SimpleNamespace(url="http://127.0.0.1:1", service_key="key")
    )
    monkeypatch.setattr(send_events, "request_json", accept)
    result = CliRunner().invoke(send_events.storm, ["--rate", str(rate), "--for", "1s", "--json"])
    assert result.exit_code == 0, result.output
    assert (len(sizes), sum(sizes)) == (10, rate)
    assert json.loads(result.output)["sent"] == rate

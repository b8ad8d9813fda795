"""CLI output about a digest: its explanation and the inbox."""

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from notifier.api.schemas.inbox_items import item_body
from notifier.cli.commands.explain.alert_and_digest_text import digest_explanation
from notifier.cli.commands.inbox import page_json
from notifier.domain.errors import NotFound
from notifier.domain.ids import BurstKey, UserId
from notifier.domain.users.account_preferences import DEFAULT_ACCOUNT_PREFERENCES
from notifier.domain.users.digest import DigestSchedule, date_of, digest_key
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import Mark
from tests.cli.in_memory_read_ports import reads_of
from tests.support.domain_examples import burst
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_system import LYRA, Stage
from tests.support.simulator.inbox_visits import run_sync


def test_digest_is_explained_by_its_key() -> None:
    stage, lee, subject = Stage(), UserId("lee"), LYRA
    day = START + timedelta(days=1)
    stage.state.people.volume(lee, subject, Volume.DIGEST)
    opened = burst(subject=subject, opened_at=stage.state.clock.now() + timedelta(minutes=1))
    stage.state.bursts.by_key[opened.key] = opened
    key = digest_key(lee, DigestSchedule.of(DEFAULT_ACCOUNT_PREFERENCES).day_of(opened.opened_at))
    stage.state.clock.advance(timedelta(days=1))

    def explain(key: BurstKey, member: UserId = lee) -> dict[str, Any]:
        return dict(run_sync(digest_explanation(stage.state.clock, lambda: reads_of(stage), key, member)))

    explanation = explain(key)
    assert (explanation["visible"], explanation["rule"], explanation["marks"]["unread"]) == (True, None, True)
    assert explanation["digest"] == {
        "date": str(date_of(key)),
        "accounts": [{"account": subject.owner, "count": opened.count}],
        "bursts": [str(opened.key)],
        "more": False,
    }
    run_sync(stage.uncached_inbox().mark(lee, [key], Mark.HIDDEN))
    assert (explain(key)["rule"], explain(key)["marks"]["mark"]) == ("hidden", "hidden")
    empty_digest = digest_key(lee, day.date() - timedelta(days=5))
    assert (explain(empty_digest)["rule"], explain(empty_digest)["digest"]) == ("empty", None)
    assert explain(digest_key(lee, day.date() - timedelta(days=200)))["rule"] == "expired"
    for other_key, member in ((BurstKey(key.subject, 1), lee), (key, UserId("kim")), (key, UserId("nobody"))):
        with pytest.raises(NotFound):
            explain(other_key, member)


def test_inbox_command_shows_digest_like_the_service() -> None:
    stage, lee = Stage(), UserId("lee")
    stage.state.people.volume(lee, LYRA, Volume.DIGEST)
    opened = burst(subject=LYRA, opened_at=stage.state.clock.now() + timedelta(minutes=1))
    stage.state.bursts.by_key[opened.key] = opened
    stage.state.clock.advance(timedelta(days=1))
    page, badge = run_sync(stage.uncached_inbox().open(lee))
    output: dict[str, Any] = json.loads(json.dumps(page_json(lee, page, badge)))
    [shown], [item] = page.items, output["items"]
    served = msgspec.to_builtins(item_body(shown, "id", stage.state.clock.now()))
    assert (item["subject"], item["seq"]) == (served["subject"], served["seq"])
    assert set(item["digest"]) == set(served["digest"])
    assert [item["digest"][name] for name in ("date", "more")] == [served["digest"][name] for name in ("date", "more")]

"""What the verbs say of a digest: the explanation of its own key, and the tab."""

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from notifier.api.schemas.items import item_body
from notifier.cli.commands.explain.text import digest_explanation
from notifier.cli.commands.tab import facts
from notifier.domain.errors import NotFound
from notifier.domain.ids import BurstKey, UserId
from notifier.domain.users.account_preferences import NOTHING_SAID
from notifier.domain.users.digest import Schedule, date_in, named
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import Mark
from tests.cli.reads import reads_of
from tests.support.examples import burst
from tests.support.fakes.clock import START
from tests.support.in_memory_system import LYRA, Stage
from tests.support.simulator.inbox_visits import driven


def test_a_digest_is_explained_by_its_own_key() -> None:
    stage, lee, subject = Stage(), UserId("lee"), LYRA
    day = START + timedelta(days=1)
    stage.ground.people.volume(lee, subject, Volume.DIGEST)
    made = burst(subject=subject, opened_at=stage.ground.clock.now() + timedelta(minutes=1))
    stage.ground.bursts.by_key[made.key] = made
    key = named(lee, Schedule.of(NOTHING_SAID).day_of(made.opened_at))
    stage.ground.clock.advance(timedelta(days=1))

    def said(key: BurstKey, who: UserId = lee) -> dict[str, Any]:
        return dict(driven(digest_explanation(stage.ground.clock, lambda: reads_of(stage), key, who)))

    found = said(key)
    assert (found["visible"], found["rule"], found["marks"]["unread"]) == (True, None, True)
    assert found["digest"] == {
        "date": str(date_in(key)),
        "accounts": [{"account": subject.owner, "count": made.count}],
        "inside": [str(made.key)],
        "more": False,
    }
    driven(stage.tab().mark(lee, [key], Mark.HIDDEN))
    assert (said(key)["rule"], said(key)["marks"]["mark"]) == ("hidden", "hidden")
    before = named(lee, day.date() - timedelta(days=5))
    assert (said(before)["rule"], said(before)["digest"]) == ("empty", None)
    assert said(named(lee, day.date() - timedelta(days=200)))["rule"] == "expired"
    for wrong, who in ((BurstKey(key.subject, 1), lee), (key, UserId("kim")), (key, UserId("nobody"))):
        with pytest.raises(NotFound):
            said(wrong, who)


def test_a_tab_tells_of_a_digest_what_the_service_tells() -> None:
    stage, lee = Stage(), UserId("lee")
    stage.ground.people.volume(lee, LYRA, Volume.DIGEST)
    made = burst(subject=LYRA, opened_at=stage.ground.clock.now() + timedelta(minutes=1))
    stage.ground.bursts.by_key[made.key] = made
    stage.ground.clock.advance(timedelta(days=1))
    page, badge = driven(stage.tab().open(lee))
    found: dict[str, Any] = json.loads(json.dumps(facts(lee, page, badge)))
    [shown], [item] = page.items, found["items"]
    served = msgspec.to_builtins(item_body(shown, "id", stage.ground.clock.now()))
    assert (item["subject"], item["seq"]) == (served["subject"], served["seq"])
    assert set(item["digest"]) == set(served["digest"])
    assert [item["digest"][name] for name in ("date", "more")] == [served["digest"][name] for name in ("date", "more")]

"""What was seen before its time, in SQLite: entries that say nothing any more are forgotten."""

from asyncio import run
from datetime import timedelta
from pathlib import Path

from notifier.adapters.sqlite import Files, SqlitePeople
from notifier.domain.ids import Member, UserId
from notifier.domain.users.digest import named
from tests.support.fakes.clock import START

ADA, MEMBER, DAY = UserId("ada"), Member(1), timedelta(days=1)


def test_a_digest_is_forgotten_two_days_after_its_date_and_never_before_it_can_have_fallen_due(tmp_path: Path) -> None:
    files = Files.at(tmp_path)
    files.migrate()
    people, digest = SqlitePeople(files.core), named(ADA, START.date())
    for days, known in ((0, {digest}), (2, {digest}), (3, set())):
        run(people.see(MEMBER, START + days * DAY, [digest] if not days else []))
        assert run(people.viewer(ADA, MEMBER)).marks.also_seen == known
    files.close()

"""SQLite forgets digests that were marked as seen once they are no longer needed."""

from asyncio import run
from datetime import timedelta
from pathlib import Path

from notifier.adapters.sqlite import Files, SqlitePeople
from notifier.domain.ids import Member, UserId
from notifier.domain.users.digest import digest_key
from tests.support.fakes.clock_and_nonces import START

ADA, MEMBER, DAY = UserId("ada"), Member(1), timedelta(days=1)


def test_seen_digest_is_forgotten_after_two_days(tmp_path: Path) -> None:
    files = Files.at(tmp_path)
    files.migrate()
    people, digest = SqlitePeople(files.core), digest_key(ADA, START.date())
    for days, remembered in ((0, {digest}), (2, {digest}), (3, set())):
        run(people.mark_seen(MEMBER, START + days * DAY, [digest] if not days else []))
        assert run(people.viewer(ADA, MEMBER)).marks.also_seen == remembered
    files.close()

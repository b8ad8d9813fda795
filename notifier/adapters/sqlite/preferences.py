"""What one person wants of subjects and of everything, read and said from a loop of coroutines."""

from collections.abc import Mapping

from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.overalls import SqliteOveralls, overall_in
from notifier.adapters.sqlite.reader import Reader, Writer
from notifier.adapters.sqlite.wants import SqliteWants, wants_of
from notifier.domain.ids import Member, Subject
from notifier.domain.users.account_preferences import Overall, OverallWord
from notifier.domain.users.subject_preferences import Want, Word


class SqlitePreferences:
    def __init__(self, db: Database, reader: Reader | None = None, writer: Writer | None = None) -> None:
        self._db = db
        self._wants, self._overalls = SqliteWants(db), SqliteOveralls(db)
        self._reader = reader or Reader()
        self._writer = writer or Writer()

    async def read(self, member: Member) -> Mapping[Subject, Want]:
        return await self._reader(self._read, member)

    async def write(self, word: Word) -> None:
        await self._writer(self._wants.write, [word])

    async def overall(self, member: Member) -> Overall:
        return await self._reader(self._overall, member)

    async def say(self, word: OverallWord) -> None:
        await self._writer(self._overalls.write, [word])

    def _read(self, member: Member) -> Mapping[Subject, Want]:
        with self._db.read() as c:
            return wants_of(c, member)

    def _overall(self, member: Member) -> Overall:
        with self._db.read() as c:
            return overall_in(c, member)

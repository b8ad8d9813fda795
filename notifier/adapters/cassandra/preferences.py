"""What one person wants of subjects and of everything, read and said from a loop of coroutines."""

from collections.abc import Mapping

from notifier.adapters.cassandra.overalls import OF_ONE, overall_by
from notifier.adapters.cassandra.overalls import written as overall_written
from notifier.adapters.cassandra.reader import Reader
from notifier.adapters.cassandra.wants import OF_MEMBER, wants_of, written
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, BLOCK_SLOT, shard_of
from notifier.domain.ids import Member, Subject
from notifier.domain.users.account_preferences import Overall, OverallWord
from notifier.domain.users.subject_preferences import Want, Word


class CassandraPreferences:
    """What was said is read by whoever asks next: both at a quorum."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def read(self, member: Member) -> Mapping[Subject, Want]:
        block, slot = divmod(member, BLOCK_MEMBERS)
        return wants_of(member, await self._reader(OF_MEMBER, (block, [slot, BLOCK_SLOT])))

    async def write(self, word: Word) -> None:
        # In the order in which the indexer does it, for its reasons. Cut off in between, the person says it again, or
        # the indexer does.
        for statement, row in written(word):
            await self._reader(statement, row)

    async def overall(self, member: Member) -> Overall:
        return overall_by(member, await self._reader(OF_ONE, (shard_of(member), member)))

    async def say(self, word: OverallWord) -> None:
        if told := overall_written(word):
            await self._reader(*told)

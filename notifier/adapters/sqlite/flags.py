"""The flags of accounts in core.db: a row for each flag of which something was said."""

from collections.abc import Collection, Iterable, Mapping

from notifier.adapters.sqlite.batches import batches
from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.statements import statement
from notifier.domain.audience.account_flags import Flag, Flagged, Place, flying
from notifier.domain.audience.bitmap import Bits, shard_of
from notifier.domain.ids import Member

BATCH = 4_096
"""In a transaction: an import of any size lets others in."""

_WRITE = statement("flag")
_STANDING = "SELECT is_on, sequence FROM flags WHERE flag = ? AND shard = ? AND member = ?"
_OF_SHARD = "SELECT member, is_on, sequence FROM flags WHERE flag = ? AND shard = ?"


class SqliteFlags:
    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, flagged: Iterable[Flagged]) -> None:
        for some in batches(map(_row, flagged), BATCH):
            with self._db.write() as c:
                c.executemany(_WRITE, some)

    def standing(self, places: Collection[Place]) -> Mapping[Place, Flagged]:
        found = dict[Place, Flagged]()
        with self._db.read() as c:
            for flag, member in places:
                for on, sequence in c.execute(_STANDING, (str(flag), shard_of(member), member)):
                    found[flag, member] = Flagged(flag=flag, member=member, on=bool(on), sequence=sequence)
        return found

    def members(self, flag: Flag, shard: int) -> Bits:
        with self._db.read() as c:
            rows = c.execute(_OF_SHARD, (str(flag), shard)).fetchall()
        return flying(
            Flagged(flag=flag, member=Member(member), on=bool(on), sequence=sequence) for member, on, sequence in rows
        )


def _row(one: Flagged) -> tuple[object, ...]:
    return str(one.flag), shard_of(one.member), one.member, one.on, one.sequence

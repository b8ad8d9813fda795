"""Account import: the file's flags apply unless the account service has set them."""

from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.account_flags import Flag
from notifier.domain.ids import UserId
from notifier.domain.users.import_rows import AccountRow
from notifier.flow.imports.import_runner_accounts_preferences import AccountImport, Import
from notifier.ports.event_log_and_dead_letters import Logged, Record
from notifier.ports.import_batches_and_key_sort import ImportBatch
from tests.flow.in_memory_account_indexer import AccountWorld
from tests.flow.in_memory_graph_indexer import Fuse, import_with_crashes
from tests.support.fakes.follow_import import MemoryFollowRuns

Flags = Mapping[str, bool]


class IndexedLog:
    """The log that the account indexer reads."""

    def __init__(self, world: AccountWorld) -> None:
        self.world = world

    def append(self, records: Sequence[Record]) -> None:
        indexed = self.world.records
        indexed += [
            Logged(partition="users/0", offset=len(indexed) + n, record=record) for n, record in enumerate(records)
        ]


def importer(
    world: AccountWorld, runs: MemoryFollowRuns, fuse: Fuse | None = None, *, ranges: bool = False
) -> Import[ImportBatch[AccountRow]]:
    on = fuse.on if fuse else lambda port: port
    accounts = AccountImport(
        directory=on(world.directory), flags=on(world.flags), log=on(IndexedLog(world)), enrols_ranges=ranges
    )
    return Import(kind=accounts, key_sort=on(runs))


def batches(rows: Sequence[tuple[str, Flags]], batch_size: int = 3) -> list[ImportBatch[AccountRow]]:
    account_rows = [
        AccountRow(user=UserId(user), flags={Flag(name): on for name, on in flags.items()}) for user, flags in rows
    ]
    return [
        ImportBatch(rows=account_rows[n : n + batch_size], rows_read=min(n + batch_size, len(account_rows)))
        for n in range(0, len(account_rows), batch_size)
    ]


def import_accounts(world: AccountWorld, *rows: tuple[str, Flags], ranges: bool = False, batch_size: int = 3) -> None:
    import_ = importer(world, MemoryFollowRuns(), ranges=ranges)
    import_.read(batches(rows, batch_size))
    import_.write()
    world.account_indexer()(world.records)


def test_imported_flags_are_in_rows_entries_and_bitmaps_without_drift() -> None:
    world = AccountWorld()
    import_accounts(
        world, ("ada", {"vip": True}), ("bea", {"verified": True, "deleted": False}), ("cleo", {"deleted": True})
    )
    assert world.vips() == {"ada"}
    assert world.entries() == {"ada": (False, False), "bea": (True, False), "cleo": (False, True)}
    assert (world.counted("rebuilt"), world.counted("drift")) == (0, 0)


def test_account_without_flags_gets_a_number() -> None:
    world = AccountWorld()
    import_accounts(world, ("ada", {}))
    assert world.directory.accounts([UserId("ada")])
    assert world.records == []


def test_account_service_wins_over_an_import() -> None:
    world = AccountWorld()
    world.account_indexer()([world.change("ada", vip=False, verified=False), world.change("bea", vip=True)])
    import_accounts(world, ("ada", {"vip": True, "verified": True}), ("bea", {"vip": False}), ("cleo", {"vip": True}))
    assert (world.vips(), world.entries()["ada"]) == ({"bea", "cleo"}, (False, False))
    world.account_indexer()([world.change("cleo", sequence=1, vip=False)])
    assert world.vips() == {"bea"}


def test_consecutive_ids_share_one_entry_when_ranges_are_enabled() -> None:
    world = AccountWorld()
    [known] = world.directory.assign_numbers([UserId("u700")]).values()
    import_accounts(
        world, *((f"u{n}", {"vip": n == 2_000}) for n in range(3_000)), ("v7", {}), ranges=True, batch_size=4_000
    )
    ranges = [world.directory.id_range_of(UserId(user)) for user in ("u0", "u701", "u2999", "v7")]
    assert [ids and ids.count for ids in ranges] == [None, 2_299, 2_299, None]
    numbers = world.directory.assign_numbers([UserId(f"u{n}") for n in range(3_000)])
    assert (len({*numbers.values()}), numbers[UserId("u700")]) == (3_000, known)
    assert world.vips() == {"u2000"}


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["ada", "bea", "cleo"]),
        st.dictionaries(st.sampled_from([str(flag) for flag in Flag]), st.booleans()),
    ),
    max_size=9,
)


@given(ROWS, st.lists(st.integers(0, 14), max_size=8))
@settings(max_examples=150, deadline=None)
def test_import_after_crashes_equals_import_without_crashes(rows: list[tuple[str, Flags]], crashes: list[int]) -> None:
    world, undisturbed, runs = AccountWorld(), AccountWorld(), MemoryFollowRuns()
    import_with_crashes(lambda fuse: importer(world, runs, fuse), batches(rows), runs, crashes)
    world.account_indexer()(world.records)
    import_accounts(undisturbed, *rows)
    assert (world.vips(), world.entries(), world.flags.kept.keys()) == (
        undisturbed.vips(),
        undisturbed.entries(),
        undisturbed.flags.kept.keys(),
    )

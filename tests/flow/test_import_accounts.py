"""Account import: the file's flags apply unless the account service has set them."""

from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.account_flags import Flag
from notifier.domain.ids import UserId
from notifier.domain.users.import_rows import AccountRow
from notifier.flow.imports.importer import AccountImport, Import
from notifier.ports.event_log import Logged, Record
from notifier.ports.imports import ImportBatch
from tests.flow.in_memory_account_indexer import Registry
from tests.flow.in_memory_graph_indexer import Fuse, import_with_crashes
from tests.support.fakes.follow_import import MemoryFollowRuns

Flags = Mapping[str, bool]


class Stream:
    """The log whose records the account indexer reads."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def append(self, records: Sequence[Record]) -> None:
        indexed = self.registry.records
        indexed += [
            Logged(partition="users/0", offset=len(indexed) + n, record=record) for n, record in enumerate(records)
        ]


def importer(
    registry: Registry, edges: MemoryFollowRuns, fuse: Fuse | None = None, *, ranges: bool = False
) -> Import[ImportBatch[AccountRow]]:
    on = fuse.on if fuse else lambda port: port
    accounts = AccountImport(
        directory=on(registry.directory), flags=on(registry.flags), log=on(Stream(registry)), enrols_ranges=ranges
    )
    return Import(kind=accounts, key_sort=on(edges))


def batches(rows: Sequence[tuple[str, Flags]], of: int = 3) -> list[ImportBatch[AccountRow]]:
    account_rows = [
        AccountRow(user=UserId(user), flags={Flag(name): on for name, on in flags.items()}) for user, flags in rows
    ]
    return [
        ImportBatch(rows=account_rows[n : n + of], rows_read=min(n + of, len(account_rows)))
        for n in range(0, len(account_rows), of)
    ]


def imported(registry: Registry, *rows: tuple[str, Flags], ranges: bool = False, of: int = 3) -> None:
    import_ = importer(registry, MemoryFollowRuns(), ranges=ranges)
    import_.read(batches(rows, of))
    import_.write()
    registry.account_indexer()(registry.records)


def test_imported_flags_are_in_rows_entries_and_bitmaps_without_drift() -> None:
    registry = Registry()
    imported(
        registry, ("ada", {"vip": True}), ("bea", {"verified": True, "deleted": False}), ("cleo", {"deleted": True})
    )
    assert registry.vips() == {"ada"}
    assert registry.entries() == {"ada": (False, False), "bea": (True, False), "cleo": (False, True)}
    assert (registry.counted("rebuilt"), registry.counted("drift")) == (0, 0)


def test_account_without_flags_gets_a_number() -> None:
    registry = Registry()
    imported(registry, ("ada", {}))
    assert registry.directory.accounts([UserId("ada")])
    assert registry.records == []


def test_account_service_wins_over_an_import() -> None:
    registry = Registry()
    registry.account_indexer()([registry.change("ada", vip=False, verified=False), registry.change("bea", vip=True)])
    imported(registry, ("ada", {"vip": True, "verified": True}), ("bea", {"vip": False}), ("cleo", {"vip": True}))
    assert (registry.vips(), registry.entries()["ada"]) == ({"bea", "cleo"}, (False, False))
    registry.account_indexer()([registry.change("cleo", sequence=1, vip=False)])
    assert registry.vips() == {"bea"}


def test_consecutive_ids_share_one_entry_when_ranges_are_enabled() -> None:
    registry = Registry()
    [known] = registry.directory.assign_numbers([UserId("u700")]).values()
    imported(registry, *((f"u{n}", {"vip": n == 2_000}) for n in range(3_000)), ("v7", {}), ranges=True, of=4_000)
    ranges = [registry.directory.range_of(UserId(user)) for user in ("u0", "u701", "u2999", "v7")]
    assert [ids and ids.count for ids in ranges] == [None, 2_299, 2_299, None]
    numbers = registry.directory.assign_numbers([UserId(f"u{n}") for n in range(3_000)])
    assert (len({*numbers.values()}), numbers[UserId("u700")]) == (3_000, known)
    assert registry.vips() == {"u2000"}


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
    registry, undisturbed, edges = Registry(), Registry(), MemoryFollowRuns()
    import_with_crashes(lambda fuse: importer(registry, edges, fuse), batches(rows), edges, crashes)
    registry.account_indexer()(registry.records)
    imported(undisturbed, *rows)
    assert (registry.vips(), registry.entries(), registry.flags.kept.keys()) == (
        undisturbed.vips(),
        undisturbed.entries(),
        undisturbed.flags.kept.keys(),
    )

"""Preference import: preferences and bitmaps follow the file unless the user has set them."""

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.users.account_preferences import AccountPreferences, visible_from
from notifier.domain.users.import_rows import PreferenceRow
from notifier.domain.users.quiet_hours import QuietHours
from notifier.domain.users.subject_preferences import ALWAYS, NEVER, Volume
from notifier.flow.imports.import_runner_accounts_preferences import Import, PreferenceImport
from notifier.ports.import_batches_and_key_sort import ImportBatch
from tests.flow.in_memory_graph_indexer import LYRA, NOVA, OFF, Fuse, Graph, import_with_crashes
from tests.flow.test_import_follows import IndexedLog
from tests.support.fakes.clock_and_nonces import START, ManualClock
from tests.support.fakes.follow_import import MemoryFollowRuns


def importer(
    graph: Graph, runs: MemoryFollowRuns, fuse: Fuse | None = None, clock: ManualClock | None = None
) -> Import[ImportBatch[PreferenceRow]]:
    on = fuse.on if fuse else lambda port: port
    preferences = PreferenceImport(
        directory=on(graph.directory),
        subject_preferences=on(graph.subject_preferences),
        account_preferences=on(graph.account_preferences),
        log=on(IndexedLog(graph)),
        clock=clock or ManualClock(),
    )
    return Import(kind=preferences, key_sort=on(runs))


def row(user: str, account: UserId | None = None, **fields: Any) -> PreferenceRow:
    return PreferenceRow(user=UserId(user), account=account, **fields)


def batches(rows: Sequence[PreferenceRow], batch_size: int = 3) -> list[ImportBatch[PreferenceRow]]:
    return [
        ImportBatch(rows=rows[n : n + batch_size], rows_read=min(n + batch_size, len(rows)))
        for n in range(0, len(rows), batch_size)
    ]


def import_preferences(graph: Graph, *rows: PreferenceRow, at: datetime = START) -> None:
    clock = ManualClock()
    clock.advance(at - START)
    import_ = importer(graph, MemoryFollowRuns(), clock=clock)
    import_.read(batches(rows))
    import_.write()
    graph.indexer()(graph.records)


def test_imported_preferences_are_in_rows_and_bitmaps_without_drift() -> None:
    graph = Graph()
    import_preferences(
        graph,
        row("ada", NOVA, volume=Volume.OFF),
        row("bea", NOVA, volume=Volume.FIRST, visible_from=NEVER),
        row("cleo", LYRA, visible_from=START),
        row("dora", volume=Volume.FIRST, push=False),
        row("ada", quiet=QuietHours(start=time(22), end=time(7)), zone="Europe/Berlin"),
        row("emma", NOVA),
    )
    assert graph.preference_bitmaps() == {"off": {"ada"}, "first": {"bea"}, "muted": {"bea"}}
    assert graph.account_bitmaps() == {"overall_first": {"dora"}, "no_push": {"dora"}}
    [cleo, ada] = graph.directory.assign_numbers([UserId("cleo"), UserId("ada")]).values()
    lyra = Subject(Kind.MENTION, LYRA)
    assert graph.subject_preferences.read_own([(lyra, cleo)])[lyra, cleo].visible_from == START
    night = AccountPreferences(quiet=QuietHours(start=time(22), end=time(7)), zone="Europe/Berlin")
    assert graph.account_preferences.read_current([ada]) == {ada: night}
    assert (graph.counted("rebuilt"), graph.counted("drift")) == (0, 0)


def test_preference_of_the_user_wins_over_an_import() -> None:
    graph = Graph()
    graph.indexer()([graph.change_preference("ada", OFF), graph.change_account_preferences("bea", volume=Volume.OFF)])
    import_preferences(
        graph,
        row("ada", NOVA, volume=Volume.FIRST),
        row("bea", volume=Volume.FIRST, push=False),
        row("cleo", NOVA, visible_from=NEVER),
    )
    assert graph.preference_bitmaps() == {"off": {"ada"}, "muted": {"cleo"}}
    assert graph.account_bitmaps() == {"overall_off": {"bea"}, "no_push": {"bea"}}
    [cleo] = graph.directory.assign_numbers([UserId("cleo")]).values()
    nova = Subject(Kind.MENTION, NOVA)
    before = graph.subject_preferences.read_own([(nova, cleo)])[nova, cleo]
    assert (before.at, before.is_muted(START + timedelta(days=999))) == (ALWAYS, True)
    graph.indexer()([graph.change_preference("cleo", OFF, at=1)])
    assert graph.preference_bitmaps() == {"off": {"ada", "cleo"}, "muted": {"cleo"}}


def test_rebuild_after_an_import_finds_no_drift() -> None:
    graph = Graph()
    import_preferences(graph, row("ada", NOVA, volume=Volume.OFF), row("ada", volume=Volume.OFF))
    graph.indexer()([graph.rebuild(0), graph.rebuild_account_preferences(0)])
    assert (graph.counted("rebuilt") > 0, graph.counted("drift")) == (True, 0)


def test_preference_for_an_account_with_its_shards_number_is_imported() -> None:
    """Stored as an edge of member numbers, this row would be a self-follow."""
    graph = Graph()
    [first] = graph.directory.assign_numbers([NOVA]).values()
    import_preferences(graph, row("ada", NOVA, volume=Volume.OFF))
    assert first == 0
    assert graph.preference_bitmaps() == {"off": {"ada"}}


def seen_since(graph: Graph, user: str, account: UserId = NOVA) -> datetime:
    """Return from when the user sees bursts of an account that was always followed."""
    [member] = graph.directory.assign_numbers([UserId(user)]).values()
    subject = Subject(Kind.MENTION, account)
    return visible_from(
        {subject: ALWAYS}, graph.people.subject_preferences(member), graph.people.account_preferences(member)
    )[subject]


HOUR = timedelta(hours=1)


def test_user_imported_into_digest_gets_bursts_from_then_on() -> None:
    graph = Graph()
    graph.indexer()(
        [
            graph.change_preference("cleo", OFF),
            graph.change_account_preferences("dora", push=False),
            graph.change_account_preferences("emma", volume=Volume.ALL),
        ]
    )
    rows = [
        row("ada", NOVA, volume=Volume.DIGEST),
        row("bea", volume=Volume.DIGEST),
        row("cleo", NOVA, volume=Volume.DIGEST),
        row("dora", NOVA, volume=Volume.DIGEST),
        row("emma", volume=Volume.DIGEST),
        row("fay", NOVA, volume=Volume.FIRST),
        row("gus", NOVA, volume=Volume.DIGEST, visible_from=NEVER),
    ]
    import_preferences(graph, *rows, at=START + HOUR)
    names = ("ada", "bea", "cleo", "dora", "emma", "fay", "gus")
    seen_from = {name: seen_since(graph, name) for name in names}
    digest_users = dict.fromkeys(("ada", "bea", "dora"), START + HOUR)
    assert seen_from == dict.fromkeys(names, ALWAYS) | digest_users | {"gus": NEVER}
    import_preferences(graph, *rows, at=START + 2 * HOUR)
    assert {name: seen_since(graph, name) for name in names} == seen_from


def test_user_imported_out_of_digest_does_not_see_earlier_bursts() -> None:
    graph = Graph()
    import_preferences(graph, row("ada", volume=Volume.DIGEST), at=START + HOUR)
    import_preferences(
        graph, row("ada", NOVA, volume=Volume.ALL), row("bea", NOVA, volume=Volume.ALL), at=START + 2 * HOUR
    )
    assert seen_since(graph, "ada", LYRA) == START + HOUR
    assert seen_since(graph, "ada") == START + 2 * HOUR
    assert seen_since(graph, "bea") == ALWAYS


NAMES = st.sampled_from(["ada", "bea", "cleo"])
SUBJECT_ROWS = st.builds(
    row,
    NAMES,
    st.sampled_from([NOVA, LYRA]),
    volume=st.sampled_from([None, Volume.FIRST, Volume.DIGEST]),
    visible_from=st.sampled_from([None, NEVER]),
)
ACCOUNT_ROWS = st.builds(row, NAMES, volume=st.sampled_from([None, Volume.OFF]), push=st.sampled_from([None, False]))


@given(st.lists(SUBJECT_ROWS | ACCOUNT_ROWS, max_size=9), st.lists(st.integers(0, 12), max_size=8))
@settings(max_examples=150, deadline=None)
def test_import_after_crashes_equals_import_without_crashes(rows: list[PreferenceRow], crashes: list[int]) -> None:
    graph, undisturbed, runs = Graph(), Graph(), MemoryFollowRuns()
    import_with_crashes(lambda fuse: importer(graph, runs, fuse), batches(rows), runs, crashes)
    graph.indexer()(graph.records)
    import_preferences(undisturbed, *rows)
    assert graph.account_bitmaps() == undisturbed.account_bitmaps()
    for account in (NOVA, LYRA):
        assert graph.preference_bitmaps(account) == undisturbed.preference_bitmaps(account)

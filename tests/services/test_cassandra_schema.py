"""The Cassandra schema: applied once, continued after a kill, refused if unknown."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from threading import Event
from uuid import uuid4

import pytest

from notifier.adapters.cassandra import CassandraAccess, Cluster, Phase, migrate, pending_migrations, require_schema
from notifier.devkit.engines.maven import missing_tools
from notifier.domain.errors import SchemaChanged, SchemaNewer, SchemaOlder, StoreUnavailable, UnusableEnvironment

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        bool(missing_tools()), reason=f"the engines need Java 17 and Maven; not found: {', '.join(missing_tools())}"
    ),
]

FIRST = "-- A table; with a comment.\nCREATE TABLE IF NOT EXISTS a (x int PRIMARY KEY) WITH comment = 'one; -- two';\n"
SECOND = "".join(f"CREATE TABLE IF NOT EXISTS {name} (x int PRIMARY KEY);\n" for name in "bcd")
SHORT = timedelta(seconds=8)
"""Term of a lock, in tests that wait until it ends. A busy node may need seconds to create a table."""
LONG = timedelta(seconds=60)
DAY = 86_400


@pytest.fixture
def access(cassandra: CassandraAccess) -> CassandraAccess:
    """A keyspace of the test's own, which does not exist yet."""
    return replace(cassandra, keyspace=f"schema_{uuid4().hex[:12]}")


@pytest.fixture
def cluster(access: CassandraAccess) -> Iterator[Cluster]:
    cluster = Cluster(access)
    yield cluster
    cluster.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for phase in Phase:
        (tmp_path / phase).mkdir()
    (tmp_path / "pre" / "0001_first.cql").write_text(FIRST)
    (tmp_path / "pre" / "0002_second.cql").write_text(SECOND)
    return tmp_path


def tables(cluster: Cluster) -> set[str]:
    query = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s"
    result = cluster.execute(query, (cluster.access.keyspace,))
    return {row.table_name for row in result} - {"migrations"}


class CrashingCluster(Cluster):
    """Kills its process before the change that creates this table."""

    at = "c"

    def change_schema(self, statement: str) -> None:
        if f"EXISTS {self.at} " in statement:
            os.kill(os.getpid(), signal.SIGKILL)
        super().change_schema(statement)


class StallingCluster(Cluster):
    """Stops before the change that creates the first table, until it is resumed."""

    def __init__(self, access: CassandraAccess) -> None:
        super().__init__(access)
        self.stopped, self.resumed = Event(), Event()

    def change_schema(self, statement: str) -> None:
        if "EXISTS a " in statement:
            self.stopped.set()
            assert self.resumed.wait(60)
        super().change_schema(statement)


def migrate_and_crash(access: CassandraAccess, folder: Path) -> None:
    migrate(CrashingCluster(access), Phase.PRE, folder, term=SHORT)


def migrate_all(access: CassandraAccess, folder: Path) -> int:
    cluster = Cluster(access)
    try:
        return migrate(cluster, Phase.PRE, folder)
    finally:
        cluster.close()


def run_killed_migration(access: CassandraAccess, folder: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=migrate_and_crash, args=(access, folder))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL


def test_migrations_are_applied_in_order_once(cluster: Cluster, folder: Path) -> None:
    assert migrate(cluster, Phase.PRE, folder) == 2
    assert tables(cluster) == {"a", "b", "c", "d"}
    assert migrate(cluster, Phase.PRE, folder) == 0
    (folder / "pre" / "0003_third.cql").write_text("CREATE TABLE IF NOT EXISTS e (x int PRIMARY KEY);")
    assert pending_migrations(cluster, Phase.PRE, folder) == ["0003_third"]
    assert migrate(cluster, Phase.PRE, folder) == 1
    assert pending_migrations(cluster, Phase.PRE, folder) == []
    assert "e" in tables(cluster)


def test_post_phase_waits_for_pre_phase(cluster: Cluster, folder: Path) -> None:
    (folder / "post" / "0001_without.cql").write_text("DROP TABLE IF EXISTS d;")
    with pytest.raises(UnusableEnvironment, match="0001_first"):
        migrate(cluster, Phase.POST, folder)
    migrate(cluster, Phase.PRE, folder)
    assert "d" in tables(cluster)
    assert migrate(cluster, Phase.POST, folder) == 1
    assert tables(cluster) == {"a", "b", "c"}


def test_newer_keyspace_is_refused_and_unchanged(cluster: Cluster, folder: Path) -> None:
    migrate(cluster, Phase.PRE, folder)
    (folder / "pre" / "0002_second.cql").unlink()
    (folder / "pre" / "0003_third.cql").write_text("CREATE TABLE IF NOT EXISTS e (x int PRIMARY KEY);")
    with pytest.raises(SchemaNewer, match="pre/0002_second"):
        migrate(cluster, Phase.PRE, folder)
    assert "e" not in tables(cluster)


def test_edited_migration_is_refused(cluster: Cluster, folder: Path) -> None:
    migrate(cluster, Phase.PRE, folder)
    (folder / "pre" / "0001_first.cql").write_text(FIRST + "-- Another thought.\n")
    with pytest.raises(SchemaChanged, match="pre/0001_first"):
        migrate(cluster, Phase.PRE, folder)


def test_next_runner_continues_a_killed_migration(access: CassandraAccess, cluster: Cluster, folder: Path) -> None:
    run_killed_migration(access, folder)
    assert tables(cluster) == {"a", "b"}
    assert pending_migrations(cluster, Phase.PRE, folder) == ["0002_second"]
    assert migrate(cluster, Phase.PRE, folder, lock_timeout=LONG) == 1
    assert tables(cluster) == {"a", "b", "c", "d"}


@pytest.mark.thorough
def test_half_applied_migration_is_refused_when_edited(access: CassandraAccess, cluster: Cluster, folder: Path) -> None:
    run_killed_migration(access, folder)
    (folder / "pre" / "0002_second.cql").write_text(SECOND.replace("b (x int", "b (y int"))
    with pytest.raises(SchemaChanged, match="pre/0002_second"):
        migrate(cluster, Phase.PRE, folder, lock_timeout=LONG)


def test_concurrent_runners_apply_each_migration_once(access: CassandraAccess, cluster: Cluster, folder: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        applied = pool.starmap(migrate_all, [(access, folder)] * 2, chunksize=1)
    assert sum(applied) == 2
    assert tables(cluster) == {"a", "b", "c", "d"}


@pytest.mark.thorough
def test_second_runner_waits_and_times_out(access: CassandraAccess, cluster: Cluster, folder: Path) -> None:
    first = StallingCluster(access)
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(migrate, first, Phase.PRE, folder)
        try:
            assert first.stopped.wait(60)
            with pytest.raises(StoreUnavailable, match="Another process has been migrating"):
                migrate(cluster, Phase.PRE, folder, lock_timeout=timedelta(0))
            assert tables(cluster) == set()
        finally:
            first.resumed.set()
        assert work.result() == 2
    first.close()
    assert migrate(cluster, Phase.PRE, folder, lock_timeout=timedelta(0)) == 0


@pytest.mark.thorough
def test_runner_stalled_past_its_lock_records_nothing(access: CassandraAccess, cluster: Cluster, folder: Path) -> None:
    first = StallingCluster(access)
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(migrate, first, Phase.PRE, folder, term=SHORT)
        try:
            assert first.stopped.wait(60)
            assert migrate(cluster, Phase.PRE, folder, lock_timeout=LONG) == 2
        finally:
            first.resumed.set()
        with pytest.raises(StoreUnavailable, match="lost the migration lock"):
            work.result()
    first.close()
    assert pending_migrations(cluster, Phase.PRE, folder) == []


def test_keyspace_that_lacks_a_migration_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "pre").mkdir()
    (tmp_path / "pre" / "0000_older.cql").write_text(FIRST)
    migrate(cluster, Phase.PRE, tmp_path)
    with pytest.raises(SchemaOlder, match="Missing migration: pre/0001_notifier_tables"):
        require_schema(cluster)


def test_missing_keyspace_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(UnusableEnvironment, match=f"Cassandra has no keyspace {cluster.access.keyspace}; "):
        cluster.session()


def test_session_is_refused_after_a_fork(cluster: Cluster, folder: Path) -> None:
    migrate(cluster, Phase.PRE, folder)
    cluster._pid = -1  # the value in a child process
    with pytest.raises(RuntimeError, match="opened before this process forked"):
        cluster.session()
    cluster._pid = os.getpid()


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Expected options of a table, in the server's terms."""

    compaction: str
    ttl: int
    grace: int = DAY


LEVELED, TIERED, WINDOWS = "L10", "T4", "3 DAYS"
TABLES_BY_OPTIONS = {
    TableOptions(LEVELED, 0): """
        user_ranges member_ranges users counters members member_sets follower_counts follows follows_by_subject seen
        subject_preferences preferences_by_subject account_preferences sequence_heads audit leases account_flags
        user_blocks user_blocks_by_account author_verdicts lane_tallies
        """,
    TableOptions(LEVELED, 0, 10 * DAY): "deleted_members",
    TableOptions(LEVELED, 91 * DAY): "held_mentions",
    TableOptions(
        TIERED, 91 * DAY
    ): "marks bursts burst_runs plans slices claims dead_letters dead_letters_by_day retractions",
    TableOptions(TIERED, 8 * DAY): "marks_by_burst send_log",
    TableOptions(WINDOWS, 91 * DAY): "mentions mention_ids mentions_by_retraction_key",
    TableOptions(WINDOWS, 90 * DAY): "bursts_by_hour inbox",
    TableOptions(TIERED, 8 * DAY, 3 * 3600): "open_bursts deferred_bursts",
    TableOptions(TIERED, 8 * DAY + 3600, 3 * 3600): "open_slots",
    TableOptions("8 HOURS", 7 * DAY): "snapshot_choices",
    TableOptions("10 MINUTES", 600, 600): "burst_changes",
    TableOptions("8 HOURS", 7 * DAY + 3600): "audience_snapshots",
    TableOptions(LEVELED, 180 * DAY): "throttles",
    TableOptions(LEVELED, 270 * DAY): "device_owners",
    TableOptions(LEVELED, 270 * DAY, 10 * DAY): "devices",
    TableOptions(TIERED, 0): "active_set_entries",  # its rows have their own TTLs: two days after their hour
}
TABLES = {name: options for options, names in TABLES_BY_OPTIONS.items() for name in names.split()}


@pytest.fixture(scope="module")
def shipped(cassandra: CassandraAccess) -> Iterator[Cluster]:
    cluster = Cluster(replace(cassandra, keyspace="shipped"))
    for phase in Phase:
        migrate(cluster, phase)
    yield cluster
    cluster.close()


def test_tables_have_expected_compaction_ttl_and_grace(shipped: Cluster) -> None:
    rows = shipped.execute("SELECT * FROM system_schema.tables WHERE keyspace_name = 'shipped'")
    assert {
        row.table_name: TableOptions(_compaction(row.compaction), row.default_time_to_live, row.gc_grace_seconds)
        for row in rows
        if row.table_name != "migrations"
    } == TABLES


def _compaction(options: dict[str, str]) -> str:
    if options["class"].endswith(".TimeWindowCompactionStrategy"):
        return f"{options['compaction_window_size']} {options['compaction_window_unit']}"
    return options["scaling_parameters"]


def test_schema_is_complete_after_both_phases(shipped: Cluster) -> None:
    assert migrate(shipped, Phase.POST) == migrate(shipped, Phase.PRE) == 0
    assert pending_migrations(shipped, Phase.POST) == pending_migrations(shipped, Phase.PRE) == []


def test_row_without_own_ttl_gets_default(shipped: Cluster) -> None:
    row = (1, 2, "mention:nova", 3, 4, "p1", b"bits")
    names = "member_range, inbox_window, subject, opened_at, seq, tier, members"
    shipped.execute(f"INSERT INTO inbox ({names}) VALUES ({', '.join(['%s'] * 7)})", row)
    (stored_row,) = shipped.execute("SELECT ttl(members) AS ttl FROM inbox WHERE member_range = 1 AND inbox_window = 2")
    assert 89 * DAY < stored_row.ttl <= 90 * DAY


def test_indexes_find_rows_without_their_key(shipped: Cluster) -> None:
    for subject, published in (("mention:nova", True), ("mention:ada", False)):
        shipped.execute(
            "INSERT INTO sequence_heads (subject, published) VALUES (%s, %s) IF NOT EXISTS", (subject, published)
        )
    unpublished = shipped.execute("SELECT subject FROM sequence_heads WHERE published = false LIMIT 10")
    assert [row.subject for row in unpublished] == ["mention:ada"]
    for member, seen_at in ((1, 10), (2, 20)):
        shipped.execute("INSERT INTO seen (shard, member, seen_at) VALUES (0, %s, %s)", (member, seen_at))
    assert [row.member for row in shipped.execute("SELECT member FROM seen WHERE shard = 0 AND seen_at >= 15")] == [2]

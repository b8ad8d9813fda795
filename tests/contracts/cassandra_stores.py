"""Cassandra backends and stores for the contract tests, and a writer of user facts."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial

from notifier.adapters.cassandra import (
    CassandraAudienceSnapshots,
    CassandraInbox,
    CassandraStoreScan,
    CassandraTimeline,
    Cluster,
)
from notifier.adapters.cassandra.stores.burst_change_feed import CassandraBurstChanges, CassandraViewerLapses
from notifier.adapters.cassandra.stores.bursts_and_sequence_heads import (
    CassandraBursts,
    CassandraHeads,
    CassandraRecentBursts,
)
from notifier.adapters.cassandra.stores.dead_letters import CassandraDeadLetters, CassandraDeadLetterTallies
from notifier.adapters.cassandra.stores.deferred_bursts import CassandraDeferredBursts
from notifier.adapters.cassandra.stores.devices import CassandraDevices
from notifier.adapters.cassandra.stores.follows import CassandraFollows
from notifier.adapters.cassandra.stores.leases_epochs_throttles_audit import (
    CassandraEpochs,
    CassandraLeases,
    CassandraThrottles,
)
from notifier.adapters.cassandra.stores.ledger import CassandraClaims, CassandraLedger
from notifier.adapters.cassandra.stores.member_sets_and_active_sets import CassandraActiveSets, CassandraMemberSets
from notifier.adapters.cassandra.stores.moderation import CassandraAuthorVerdicts, CassandraHeldMentions
from notifier.adapters.cassandra.stores.preferences_and_user_blocks import (
    CassandraAccountPreferences,
    CassandraPreferences,
    CassandraSubjectPreferences,
    CassandraUserBlocks,
)
from notifier.adapters.cassandra.stores.retractions_and_text_erasure import (
    CassandraErasureTargets,
    CassandraRetractions,
)
from notifier.adapters.cassandra.stores.send_log_and_suppressions import CassandraPushSuppressions, CassandraSendLog
from notifier.adapters.cassandra.stores.user_directory_and_account_flags import (
    CassandraAccountFlags,
    CassandraDirectory,
)
from notifier.adapters.cassandra.stores.viewer_facts_and_marks import CassandraPeople
from notifier.adapters.clock_and_nonces import UuidNonces
from notifier.codec.messagepack import to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, shard_of
from notifier.domain.audience.follows import UNFOLLOWED
from notifier.domain.ids import Subject, UserId
from tests.contracts.memory_and_sqlite_backends import Backend
from tests.contracts.memory_and_sqlite_stores import MOST_BLOCKERS, PreferenceWriter, Store
from tests.support.cassandra_keyspace import patient_queries
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.event_log import MemoryEventLog


def in_cassandra(cluster: Cluster, clock: ManualClock) -> Backend:
    """The log is always in memory: Cassandra stores no log, and Kafka's is tested on its own."""
    return Backend(
        clock=clock,
        log=MemoryEventLog(clock),
        devices=CassandraDevices(cluster, clock),
        directory=CassandraDirectory(cluster),
        epochs=CassandraEpochs(cluster),
        flags=CassandraAccountFlags(cluster),
        sets=CassandraMemberSets(cluster),
        active_sets=CassandraActiveSets(cluster, clock),
        author_verdicts=CassandraAuthorVerdicts(cluster),
        held_mentions=CassandraHeldMentions(cluster, clock),
        erasure_targets=CassandraErasureTargets(cluster, clock),
        throttles=CassandraThrottles(cluster, clock),
        dead_letters=CassandraDeadLetters(cluster, clock),
        lane_tallies=CassandraDeadLetterTallies(cluster),
        send_log=CassandraSendLog(cluster),
        leases=CassandraLeases(cluster),
        store_scan=CassandraStoreScan(cluster, CassandraLedger(cluster, clock), CassandraBursts(cluster, clock)),
        bursts=CassandraBursts(cluster, clock),
        audience_snapshots=CassandraAudienceSnapshots(cluster, clock),
        inbox=CassandraInbox(cluster, clock),
        ledger=CassandraLedger(cluster, clock),
    )


@contextmanager
def cassandra_store(cluster: Cluster, clock: ManualClock) -> Iterator[Store]:
    """Open the stores; a reopened store has a session of its own."""
    ledger = CassandraLedger(cluster, clock)
    yield Store(
        clock=clock,
        reopen=partial(_reopened, cluster, clock),
        expires=True,
        heads=CassandraHeads(cluster),
        bursts=CassandraBursts(cluster, clock),
        changes=CassandraBurstChanges(patient_queries(cluster), clock, UuidNonces()),
        lapses=CassandraViewerLapses(cluster, clock, UuidNonces()),
        retractions=CassandraRetractions(cluster),
        recent=CassandraRecentBursts(cluster, clock),
        audience_snapshots=CassandraAudienceSnapshots(cluster, clock),
        inbox=CassandraInbox(cluster, clock),
        ledger=ledger,
        deferred_bursts=CassandraDeferredBursts(cluster, clock, ledger.unfinished_burst_list),
        claims=CassandraClaims(cluster),
        people=CassandraPeople(patient_queries(cluster), clock, max_blockers=MOST_BLOCKERS),
        timeline=CassandraTimeline(patient_queries(cluster), clock),
        directory=CassandraDirectory(cluster),
        flags=CassandraAccountFlags(cluster),
        sets=CassandraMemberSets(cluster),
        follows=CassandraFollows(cluster),
        subject_preferences=CassandraSubjectPreferences(cluster),
        account_preferences=CassandraAccountPreferences(cluster),
        user_blocks=CassandraUserBlocks(cluster),
        preferences=CassandraPreferences(patient_queries(cluster)),
        facts=CassandraFacts(cluster),
        push_suppressions=CassandraPushSuppressions(cluster),
    )


@contextmanager
def _reopened(cluster: Cluster, clock: ManualClock) -> Iterator[Store]:
    second_cluster = Cluster(cluster.access)
    try:
        with cassandra_store(second_cluster, clock) as store:
            yield store
    finally:
        second_cluster.close()


class CassandraFacts(PreferenceWriter):
    """Writes user facts. Follows are written directly into the tables, so a test needs no sequence numbers.

    Both rows of a follow go into one logged batch, so they have the same timestamp.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(
            CassandraDirectory(cluster), CassandraSubjectPreferences(cluster), CassandraUserBlocks(cluster)
        )
        self._cluster = cluster

    def follow(self, user: UserId, subject: Subject, visible_from: datetime) -> None:
        member, subject_name, since = self._member(user), str(subject), to_ms(visible_from)
        block, slot = divmod(member, BLOCK_MEMBERS)
        self._put(
            ("follows (block, slot, subject, visible_from)", (block, slot, subject_name, since)),
            (
                "follows_by_subject (subject, shard, block, slot, visible_from)",
                (subject_name, shard_of(member), block, slot, since),
            ),
        )

    def unfollow(self, user: UserId, subject: Subject) -> None:
        self.follow(user, subject, UNFOLLOWED)

    def _put(self, *rows: "Row") -> None:
        inserts = "".join(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))}); " for table, row in rows)
        self._cluster.query(f"BEGIN BATCH {inserts}APPLY BATCH", [value for _, row in rows for value in row])


Row = tuple[str, tuple[object, ...]]
"""Table name with its columns, and the values."""

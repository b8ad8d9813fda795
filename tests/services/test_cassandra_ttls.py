"""Every row of the core flow has a TTL, and dependent rows outlive their burst."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from notifier.adapters.cassandra import (
    CassandraActiveSets,
    CassandraBursts,
    CassandraClaims,
    CassandraDeadLetters,
    CassandraDeferredBursts,
    CassandraHeldMentions,
    CassandraLedger,
    CassandraSendLog,
    CassandraThrottles,
    Cluster,
)
from notifier.domain.audience.activity import FOREVER, hour_of
from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers_and_member_sets import SetKind, Tier
from notifier.domain.bursts.held_mention import (
    HELD_MENTION_KEPT_FOR,
    MAX_DECISION_WAIT,
    HeldMention,
    ModerationDecision,
)
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.bursts.sequencer import SequencedMention
from notifier.domain.delivery.dispatch_backlog import DeferredBurst
from notifier.domain.delivery.ledger import Fact, LedgerEntry
from notifier.domain.delivery.throttle_and_backpressure import Throttle
from notifier.domain.fencing import fencing_token
from notifier.domain.ids import BurstKey, Platform, UserId
from notifier.domain.push.send_log import SendBatch, SendLogKey
from notifier.ports.audience import ActiveSetEntry
from notifier.ports.bursts import MentionOutcome
from notifier.ports.event_log_and_dead_letters import DeadLetter
from tests.support.cassandra_keyspace import ON_ENGINES, clock, cluster, shared_cluster
from tests.support.contract_examples import EVENT, NOVA, burst, event, mention, plan, slice_of
from tests.support.fakes.clock_and_nonces import START, ManualClock

__all__ = ["clock", "cluster", "shared_cluster"]

pytestmark = ON_ENGINES

KEY = BurstKey(NOVA, 1)
TERM = timedelta(seconds=4)
PAUSE = Throttle(id="t1", tier=Tier.P2, rate=None, reason="disk", operator="ada", starts_at=START, ends_at=START + TERM)
CELLS: dict[str, Sequence[str]] = {
    "bursts": ["version", "opened_at", "restricted_to", "blob"],
    "burst_runs": ["opened_at"],
    "mentions": ["blob"],
    "slices": ["last_number", "at", "people", "rows", "phones", "note"],
    "claims": ["attempt", "owner", "claimed_at", "until", "reached"],
    "plans": ["blob"],
    "send_log": ["intent", "outcome"],
    "deferred_bursts": ["opened_at"],
    "throttles": ["tier", "rate", "reason", "operator", "starts_at", "ends_at"],
    "held_mentions": ["author", "accounts", "since", "event", "decision"],
    "dead_letters": ["stage", "cause", "body", "at"],
}
"""Tables whose rows have cells that are always set, with those cells."""
WITHOUT_CELLS = {"bursts_by_hour", "open_bursts", "dead_letters_by_day"}


def test_every_row_has_ttl(cluster: Cluster, clock: ManualClock) -> None:
    bursts, ledger, claims = CassandraBursts(cluster, clock), CassandraLedger(cluster, clock), CassandraClaims(cluster)
    bursts.write([burst()], [SequencedMention(mention=mention(), seq=1)])
    bursts.record_refusals(
        [MentionOutcome(event=EVENT, account=UserId("zoe"), burst=None, refusal=MentionRefusal.DENIED)]
    )
    ledger.store_plans([plan(KEY)])
    ledger.record([LedgerEntry(slice=slice_of(KEY), fact=Fact.DONE, at=START, alert_count=7)])
    ledger.record(
        [LedgerEntry(slice=slice_of(KEY), fact=Fact.DEFERRED, number=n, at=START, alert_count=7) for n in (1, 2)]
    )
    deferred = DeferredBurst(burst=KEY, opened_at=START, until=START + TERM)
    CassandraDeferredBursts(cluster, clock, ledger.unfinished_burst_list).defer([deferred], START)
    claim = claims.claim(slice_of(KEY), "one", START, START + TERM)
    assert claim is not None
    claims.renew(claim, START + 2 * TERM)
    claims.claim(slice_of(KEY), "two", START + 2 * TERM, START + 3 * TERM)
    batch = SendLogKey(KEY, Tier.P1, 3, Platform.APNS), SendBatch(number=0, at=START, failures=())
    CassandraSendLog(cluster).write_ahead([batch])
    CassandraSendLog(cluster).close([batch])
    CassandraThrottles(cluster, clock).put(PAUSE)
    CassandraThrottles(cluster, clock).put(replace(PAUSE, rate=7.5))
    CassandraThrottles(cluster, clock).lift(PAUSE.id, "bob", START + TERM / 2)
    CassandraDeadLetters(cluster, clock).put(DeadLetter(id="x", stage="s", cause="c", body=b"b", at=START))
    held = HeldMention.from_event(event(), (UserId("nova"),))
    CassandraHeldMentions(cluster, clock).put([held])
    CassandraHeldMentions(cluster, clock).decide(held.id, ModerationDecision.DROPPED, "ada", START)
    for table, columns in CELLS.items():
        ttls = cluster.execute(f"SELECT {', '.join(f'TTL({column})' for column in columns)} FROM {table}")
        assert ttls, table
        for row in ttls:
            assert all(ttl is not None and ttl > 7 * 86_400 for ttl in row), (table, row)
    for seq_ttl, refusal_ttl in cluster.execute("SELECT TTL(seq), TTL(refusal) FROM mention_ids"):
        assert (seq_ttl is None) != (refusal_ttl is None)
    defaults = "SELECT table_name, default_time_to_live FROM system_schema.tables WHERE keyspace_name = %s"
    default_ttls = dict(cluster.execute(defaults, (cluster.access.keyspace,)))
    assert all(default_ttls[table] > 0 for table in WITHOUT_CELLS)


def test_dependent_rows_live_a_day_longer_than_burst(cluster: Cluster, clock: ManualClock) -> None:
    clock.advance(timedelta(days=30))
    CassandraBursts(cluster, clock).write([burst()], [SequencedMention(mention=mention(), seq=1)])
    CassandraLedger(cluster, clock).store_plans([plan(KEY)])
    for table, column, days in (("bursts", "blob", 60), ("mentions", "blob", 61), ("mention_ids", "seq", 61)):
        [[ttl]] = cluster.execute(f"SELECT TTL({column}) FROM {table}")
        assert days * 86_400 - 60 <= ttl <= days * 86_400


def test_text_of_held_mention_expires_with_its_waiting_time(cluster: Cluster, clock: ManualClock) -> None:
    clock.advance(timedelta(days=10))
    CassandraHeldMentions(cluster, clock).put([HeldMention.from_event(event("e9"), (UserId("nova"),))])
    remaining = (MAX_DECISION_WAIT - timedelta(days=10)) // timedelta(seconds=1)
    [[text_ttl, row_ttl]] = cluster.execute(
        "SELECT TTL(event), TTL(since) FROM held_mentions WHERE id = 'e9' ALLOW FILTERING"
    )
    assert remaining - 60 <= text_ttl <= remaining
    assert row_ttl - text_ttl == (HELD_MENTION_KEPT_FOR - MAX_DECISION_WAIT) // timedelta(seconds=1)


def test_active_set_entry_lives_two_days_longer_than_it_lasts(cluster: Cluster, clock: ManualClock) -> None:
    active_sets, now, bits = CassandraActiveSets(cluster, clock), hour_of(START), from_offsets([1])
    ttls = {now: 49 * 3600, now + 24: 73 * 3600, FOREVER: None}
    for token in (None, fencing_token(1)):
        active_sets.put(
            [ActiveSetEntry(kind=SetKind.ACTIVE_24H, last_hour=last_hour, shard=0, bits=bits) for last_hour in ttls],
            token,
        )
        for last_hour, ttl in cluster.execute("SELECT last_hour, TTL(blob) FROM active_set_entries"):
            longest_ttl = ttls.pop(last_hour) if token else ttls[last_hour]
            assert (ttl is None) == (longest_ttl is None)
            assert longest_ttl is None or longest_ttl - 60 <= ttl <= longest_ttl
    assert ttls == {}

"""Containers of all ports, as each deployment profile provides them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from notifier.domain.ids import Platform
from notifier.ports.audience import ActiveHours, ActiveSets, Activity, AudienceSnapshots, Follows, MemberSets
from notifier.ports.bursts import Bursts, Heads, RecentBursts
from notifier.ports.event_log_and_dead_letters import DeadLetters, DeadLetterTallies, EventLog
from notifier.ports.inbox import InboxStore, Timeline
from notifier.ports.inbox_cache_freshness import BurstChanges, ViewerLapses, ViewerVersionReader, ViewerVersionWriter
from notifier.ports.leases_queues_throttles_clock import Clock, Epochs, Leases, Nonces, Queue, Throttles
from notifier.ports.ledger_claims_deferred_bursts_scan import Claims, DeferredBursts, Ledger, StoreScan
from notifier.ports.live_bus import LiveBus, LiveReader
from notifier.ports.moderation_and_retractions import AuthorVerdicts, ErasureTargets, HeldMentions, Retractions
from notifier.ports.pull_index import PullIndex, PullReader
from notifier.ports.push import (
    CircuitReport,
    Devices,
    FrequencyCapStore,
    InboxLatencyReport,
    Provider,
    ProviderRates,
    PushSuppressions,
    SendLog,
)
from notifier.ports.recent_events_and_load_limits import BacklogReport, Backpressure, RecentEvents, TokenBuckets
from notifier.ports.user_directory_and_account_flags import AccountFlags, Directory
from notifier.ports.viewers_preferences_user_blocks import (
    AccountPreferencesStore,
    People,
    Preferences,
    SubjectPreferences,
    UserBlocks,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Ports of the write path. All are blocking."""

    log: EventLog
    directory: Directory
    sets: MemberSets
    heads: Heads
    bursts: Bursts
    recent_bursts: RecentBursts
    viewer_lapses: ViewerLapses
    versions: ViewerVersionWriter
    retractions: Retractions
    ledger: Ledger
    deferred_bursts: DeferredBursts
    claims: Claims
    audience_snapshots: AudienceSnapshots
    inbox: InboxStore
    follows: Follows
    subject_preferences: SubjectPreferences
    account_preferences: AccountPreferencesStore
    user_blocks: UserBlocks
    account_flags: AccountFlags
    devices: Devices
    active_sets: ActiveSets
    epochs: Epochs
    author_verdicts: AuthorVerdicts
    held_mentions: HeldMentions
    erasure_targets: ErasureTargets
    throttles: Throttles
    dead_letters: DeadLetters
    lane_tallies: DeadLetterTallies
    send_log: SendLog
    push_suppressions: PushSuppressions
    leases: Leases
    store_scan: StoreScan
    pull: PullIndex
    recent_events: RecentEvents
    token_buckets: TokenBuckets
    backpressure: Backpressure
    backlog_report: BacklogReport
    active_hours: ActiveHours
    provider_rates: ProviderRates
    caps: FrequencyCapStore
    inbox_latency: InboxLatencyReport
    circuit_report: CircuitReport
    bus: LiveBus
    queue: Queue
    providers: Mapping[Platform, Provider]
    platforms: Collection[Platform]
    """Platforms that alerts go to: those with a configured provider."""
    clock: Clock
    nonces: Nonces
    random: Callable[[], float]
    """Returns a random number in [0, 1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPorts:
    """Ports of the read path. All are asynchronous, and their connections belong to one event loop."""

    people: People
    preferences: Preferences
    timeline: Timeline
    burst_changes: BurstChanges
    pull: PullReader
    versions: ViewerVersionReader
    activity: Activity
    live: LiveReader
    clock: Clock
    nonces: Nonces

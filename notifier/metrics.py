"""Prometheus metrics of the whole product. Each process creates one `Metrics`."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

BUCKET_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 21600)
"""Upper bounds of the histograms' buckets, up to P2's delivery limit of six hours."""


class CacheCounters:
    """Counters of the hits and misses of one cache, with their labels resolved in advance."""

    def __init__(self, counter: Counter, cache: str) -> None:
        self.hits, self.misses = counter.labels(cache, "hit"), counter.labels(cache, "miss")


class Metrics:
    """All metrics of the product."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._add_mention_metrics()
        self._add_push_metrics()
        self._add_system_metrics()

    @contextmanager
    def inbox_store(self) -> Iterator[None]:
        """Count and time a store read for an inbox."""
        self.inbox_store_calls.inc()
        with self.inbox_seconds.labels("store").time():
            yield

    @contextmanager
    def inbox_redis(self) -> Iterator[None]:
        """Count and time a Redis round trip for an inbox."""
        self.inbox_redis_calls.inc()
        with self.inbox_seconds.labels("redis").time():
            yield

    def _add_mention_metrics(self) -> None:
        self.events = self._counter("events_total", "Events received by the gateway.", "status")
        self.mentions = self._counter("mentions_total", "Mentions that the router forwarded.", "lane", "verdict")
        self.refusals = self._counter("refusals_total", "Named accounts whose followers got no mention.", "code")
        self.held_mentions = self._gauge("held_mentions", "Mentions that wait for an operator's decision.")
        self.erased = self._counter(
            "erased_total", "Items removed for erased authors, other than mentions: texts and devices.", "kind"
        )
        self.bursts = self._counter("bursts_total", "Bursts published.", "lane")
        self.restamps = self._counter(
            "restamps_total", "Times that a subject's bursts got new opening times because publishing was slow."
        )
        self.inbox_audits = self._counter(
            "badge_audits_total", "Opened inboxes that were recomputed from the store alone."
        )
        self.inbox_differences = self._counter(
            "badge_drift_total", "Audited inboxes whose list or badge differed from the store."
        )
        self.dispatched = self._counter("slices_dispatched_total", "Slices queued, including repeats.", "pool")
        self.slices = self._counter("slices_total", "Attempts of workers at slices.", "pool", "outcome")
        self.deliveries = self._counter("deliveries_total", "Users reached by durable rows.", "tier")
        self.rows = self._counter("rows_total", "Inbox rows written, including repeats.", "tier")
        self.delivery_latency = self._histogram(
            "delivery_seconds", "Time from acceptance to durable rows, once for each slice.", "tier"
        )

    def _add_push_metrics(self) -> None:
        self.receipts = self._counter("push_receipts_total", "Alerts to devices, by result.", "platform", "outcome")
        self.push_latency = self._histogram(
            "push_seconds",
            "Time from accepted event to alert accepted by the provider, for first attempts outside of quiet hours.",
            "platform",
        )
        self.circuits_opened = self._counter(
            "push_breakers_opened_total", "Times that a circuit to a provider opened.", "platform"
        )
        self.open_circuits = self._gauge(
            "push_open_circuits", "Open circuits to providers and push services.", "platform"
        )
        self.push_slowdown = self._gauge(
            "push_slowdown_ratio", "Share of the alert rate that slow inboxes and the monitor's pressure leave."
        )

    def _add_system_metrics(self) -> None:
        self.streams = self._summed_gauge("streams", "Open live streams of all API processes.")
        self.stream_events = self._counter("stream_events_total", "Events sent on live streams.", "event")
        self._add_inbox_metrics()
        self.streams_cut = self._counter(
            "streams_cut_total", "Live streams closed because their client read too slowly."
        )
        self.dead_letters = self._counter("dead_letters_total", "Records and slices that failed for good.", "stage")
        self.lane_stopped = self._gauge(
            "lane_stopped", "1 while a lane is stopped by its dead-letter limit, else 0.", "lane"
        )
        self.tier_rule_failures = self._counter("tier_rule_failures_total", "Failures of a custom tier rule.")
        self.bitmaps_rebuilt = self._counter("bitmaps_rebuilt_total", "Bitmaps that were rebuilt from their rows.")
        self.bitmap_drift = self._counter("bitmaps_drift_total", "Members that were wrong in a rebuilt bitmap.")
        self.redis_garbage = self._counter(
            "cache_garbage_total", "Garbage found in Redis and discarded, by kind of key.", "kind"
        )
        self.outages = self._counter(
            "outages_total", "Steps postponed or done without a dependency, because it did not answer.", "part"
        )
        self.lag = self._gauge("lag_records", "Records of the stream that are not processed yet.", "stream")
        self.runnable_slices = self._gauge(
            "runnable_slices", "Slices that can run now, are running, or are held by a throttle.", "pool"
        )
        self.backpressure = self._gauge("pressure_ratio", "Share of P2's credit that the monitor takes away.")
        self.activity_unreadable = self._counter(
            "activity_unreadable_total", "Times that shards were not rolled up because a bitmap can't be read."
        )
        self.activity_emptied = self._counter("activity_emptied_total", "Times that Redis lost the hours of activity.")
        self.failed_duties = self._counter(
            "unreconciled_total", "Failed duties of the reconciler, once in each round.", "duty"
        )
        self.roles_replaced = self._counter(
            "roles_replaced_total", "Processes of a role that died or hung.", "role", "cause"
        )
        self.unbalanced_bursts = self._counter(
            "bursts_unbalanced_total", "Finished bursts whose accounting did not balance."
        )

    def _add_inbox_metrics(self) -> None:
        self.inbox_cache = self._counter("inbox_cache_total", "Look-ups in the caches of the inbox.", "tier", "result")
        self.inbox_store_calls = self._counter("inbox_store_calls_total", "Reads of the store for opening inboxes.")
        self.inbox_redis_calls = self._counter("inbox_redis_calls_total", "Round trips to Redis for opening inboxes.")
        self.inbox_seconds = self._histogram(
            "inbox_seconds", "Time of an open from memory, or of a wait for Redis or the store.", "tier"
        )
        self.inbox_burst_loads = self._counter("inbox_burst_loads_total", "Bursts read from the store for inboxes.")
        self.inbox_feed_reads = self._counter("inbox_feed_reads_total", "Reads of the store's change feed.")
        self.inbox_warm_ups = self._counter(
            "inbox_warm_ups_total", "Warm-ups: reads of an inbox before its user opens it.", "result"
        )
        self.inbox_partial = self._counter(
            "inbox_partial_total", "Inbox opens that fell back to a partial page, or failed."
        )

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(f"notifier_{name}", help_text, labels, registry=self.registry)

    def _histogram(self, name: str, help_text: str, *labels: str) -> Histogram:
        return Histogram(f"notifier_{name}", help_text, labels, registry=self.registry, buckets=BUCKET_SECONDS)

    def _gauge(self, name: str, help_text: str, *labels: str) -> Gauge:
        """Create a gauge of the whole system. If several processes set it, the latest value counts."""
        return Gauge(f"notifier_{name}", help_text, labels, registry=self.registry, multiprocess_mode="mostrecent")

    def _summed_gauge(self, name: str, help_text: str) -> Gauge:
        """Create a gauge that is summed over all processes.

        Each process must set its value when it starts: its metric file may have the last value of a killed process.
        """
        return Gauge(f"notifier_{name}", help_text, registry=self.registry, multiprocess_mode="sum")

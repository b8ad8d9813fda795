"""Ports of push suppression, the send log, rate limits, providers and devices."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from notifier.domain.audience.bitmap import Bits, no_members
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.alert import Alert
from notifier.domain.push.circuit_breaker import OpenCircuit
from notifier.domain.push.device import Device, DeviceId, DeviceOwnership, DeviceUpdate
from notifier.domain.push.frequency_cap import Ruling
from notifier.domain.push.receipt import Receipt
from notifier.domain.push.send_log import SendBatch, SendLogKey


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSuppression:
    """Push suppression in one shard. Members in neither bitmap may be alerted now."""

    suppressed: Bits = field(default_factory=no_members)
    """Members that must not be alerted of this burst, now or later."""
    quiet: Bits = field(default_factory=no_members)
    """Other members, currently in quiet hours."""
    recheck_at: datetime | None = None
    """Earliest time at which a member in `quiet` can be alerted; None without such members."""


class PushSuppressions(Protocol):
    """Reasons not to alert that may have arisen since the audience snapshot, read for whole shards. Blocking."""

    def read(self, burst: Burst, shards: Collection[int], now: datetime) -> Mapping[int, PushSuppression]:
        """Return the members who must not be alerted now, by shard.

        Members with deleted accounts are included. Members who never followed the subject may be missing: no snapshot
        contains them. The cost grows with the members that have a relevant fact, such as a mark or a mute.

        Raises StoreUnavailable: without an answer no alert may be sent.
        """
        ...


class SendLog(Protocol):
    """Batches of alerts; durable as long as a burst may be delivered. Blocking.

    Only the holder of a slice's claim may write to its send logs. Raises StoreUnavailable, and DiskFull for writes.
    """

    def read(
        self, burst: BurstKey, platform: Platform, shards: Collection[int]
    ) -> Mapping[SendLogKey, Sequence[SendBatch]]:
        """Return the batches of the shards' send logs, of all tiers, in order; empty send logs are missing."""
        ...

    def write_ahead(self, batches: Sequence[tuple[SendLogKey, SendBatch]]) -> Sequence[bool]:
        """Write each batch before it is sent (write-ahead), unless its send log has one with this number.

        Return for each batch whether it was written. If one was not, the caller does not know the whole send log, and
        must stop.
        """
        ...

    def close(self, batches: Sequence[tuple[SendLogKey, SendBatch]]) -> None:
        """Close the batches after they were sent, with the failed attempts. Idempotent: the last call wins."""
        ...


# Limits on alerts: provider rates, circuit breaker reports, frequency caps and the inbox latency report.


class ProviderRates(Protocol):
    """One rate per provider, shared by all workers, according to `domain/push/rate_limit`. Blocking.

    Concurrent calls all count. Not durable: a lost rate starts a new ramp. Raises CacheUnavailable; then tokens may or
    may not have been taken.
    """

    def draw(self, platform: Platform, wanted: int, *, is_p0: bool, slowdown_factor: float, now: datetime) -> int:
        """Return how many alerts may be sent now, from 0 to `wanted`.

        P0 alerts may use a reserve. `slowdown_factor` is from 1 (full rate) to 0. Granted alerts are consumed,
        sent or not.
        """
        ...

    def report_results(self, platform: Platform, *, refused_count: int, is_slow: bool, now: datetime) -> None:
        """Report how many alerts the provider did not take, and whether it answered slowly.

        If no alert was refused and no answer was slow, the call does not access the cache.
        """
        ...


class FrequencyCapStore(Protocol):
    """Each member's alerts of the last day, according to `domain/push/frequency_cap`. Blocking."""

    def spend(self, burst: BurstKey, tweet: str, members: Sequence[Member], now: datetime) -> Mapping[Member, Ruling]:
        """Return the ruling for each member, up to a few thousand of one shard, and count new alerts in the same step.

        Idempotent: members who were counted get AGAIN. Concurrent calls for different bursts of one member both
        count. Not durable: a lost alert counts as never sent. The call takes a few round trips. Raises
        CacheUnavailable; then some members may have been counted.
        """
        ...


class InboxLatencyReport(Protocol):
    """Inbox latency, reported by API processes to push workers. Blocking. Raises CacheUnavailable."""

    def publish(self, process: str, p99: timedelta, ttl: timedelta) -> None:
        """Report the latency of inbox pages. The last report of each process counts, and expires after `ttl`."""
        ...

    def worst(self) -> timedelta | None:
        """Return the highest latency of all processes; None without a valid report."""
        ...


class CircuitReport(Protocol):
    """Open circuits of providers and push services, reported by push workers to operators. Blocking.

    The report is only displayed. Raises CacheUnavailable.
    """

    def publish(self, line: str, circuit: OpenCircuit, ttl: timedelta) -> None:
        """Report an open circuit. For each line the last report wins; it expires after `ttl`."""
        ...

    def read(self) -> Mapping[str, OpenCircuit]:
        """Return the reports by line, without expired or unreadable ones."""
        ...


# Push providers: Apple, Google or a browser's push service.


class Provider(Protocol):
    """A push provider's client."""

    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[tuple[Device, Receipt]]:
        """Yield each device with the receipt of its alert, in the order in which results arrive.

        Devices are consumed as capacity allows. Blocking. Never repeats an alert that may have arrived: the caller
        retries, with the same IDs. Raises nothing for a provider's failures.
        """
        ...


# HTTP/2 transport: many concurrent requests on few connections. All providers use it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    origin: str
    """For example `https://api.push.apple.com:443`. Each origin has its own connections."""
    path: str
    headers: Sequence[tuple[str, str]]
    """Lowercase names, without pseudo-headers."""
    body: bytes
    needs_own_connection: bool = False
    """Use a separate connection: a provider that rejects this request may throttle the request's connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    """Lowercase names."""
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoReply:
    """Why a request has no response."""

    reason: str
    may_have_arrived: bool
    """False only if it is certain that no server has received the request, or that none will act on it."""


class Transport(Protocol):
    """HTTP/2 client. Blocking, for one thread at a time.

    It never resends a request that may have arrived.
    """

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply | NoReply]]:
        """Yield each request with its response, in the order in which responses arrive.

        Requests are consumed as capacity allows, so memory does not grow with their number. Raises nothing for
        failures of the remote side.
        """
        ...


# Registered devices. The bitmap of members with a device can be rebuilt from these rows.


class Devices(Protocol):
    """Registered devices. Durable and idempotent. Blocking.

    Every method raises StoreUnavailable, and DiskFull for writes.

    A device has at most one holder: the member of its highest-ranking record, or none if that record is a removal.
    Registrations expire DEVICE_KEPT_FOR after their time.
    """

    def write(self, updates: Collection[DeviceUpdate]) -> None:
        """Store registrations and removals, in any order and concurrently with other writers of the same devices.

        Once the call has returned, no read shows a device with a member whose registration ranks lower. After an
        interruption this is true for some of the devices. No member gains a device before all known earlier holders
        have lost it.
        """
        ...

    def read_current(self, ids: Collection[DeviceId]) -> Mapping[DeviceId, DeviceOwnership]:
        """Return the highest-ranking record of each device; unknown devices are missing."""
        ...

    def by_member(self, members: Collection[Member]) -> Mapping[Member, Sequence[Device]]:
        """Return all devices of each member, ordered by platform and ID; members without devices are missing."""
        ...

    def iter_devices(self, platform: Platform, shard: int, members: Bits) -> Iterator[Device]:
        """Yield the devices of the shard's members in the bitmap, in member order.

        Devices are read by blocks of members, and a few blocks are in memory at a time.
        """
        ...

    def members_with_device(self, shard: int) -> Bits:
        """Return all members of the shard that hold a device, according to the current records."""
        ...

"""Push limits in Redis: provider rates, frequency caps, inbox latency, open circuits."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from notifier.adapters.redis.compare_and_set import CasHashes, HashCell
from notifier.adapters.redis.connect import RedisClient
from notifier.adapters.redis.keys_checksums_lua_scripts import CHECKSUM_FILE, KeyKind, LuaScript
from notifier.adapters.redis.pipelined_calls import ScriptCall, run_calls
from notifier.codec import pack, unpack
from notifier.codec.devices_send_log_suppressions import pack_history, pack_rate, unpack_history, unpack_rate
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, block_of
from notifier.domain.errors import Poison
from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.circuit_breaker import OpenCircuit
from notifier.domain.push.frequency_cap import (
    HISTORY_KEPT_FOR,
    AlertCause,
    AlertHistory,
    CapLimits,
    Ruling,
    ruling_on,
    with_alert,
)
from notifier.domain.push.rate_limit import PROVIDER_LIMITS, ProviderLimit, ProviderRate, draw, report_results

_MILLISECOND = timedelta(milliseconds=1)


class RedisProviderRates:
    def __init__(self, client: RedisClient, limits: Mapping[Platform, ProviderLimit] = PROVIDER_LIMITS) -> None:
        self._limits = limits
        # An idle rate expires: its ramp would start again anyway.
        self._hashes = CasHashes(client, max(limit.idle for limit in limits.values()))

    def draw(self, platform: Platform, wanted: int, *, is_p0: bool, slowdown_factor: float, now: datetime) -> int:
        def rule(_: HashCell, stored: bytes) -> tuple[bytes, int]:
            next_rate, granted = draw(
                _rate(stored), self._limits[platform], now, wanted, is_p0=is_p0, slowdown_factor=slowdown_factor
            )
            return pack_rate(next_rate), granted

        return self._hashes.change([_rate_cell(platform)], rule)[_rate_cell(platform)]

    def report_results(self, platform: Platform, *, refused_count: int, is_slow: bool, now: datetime) -> None:
        def rule(_: HashCell, stored: bytes) -> tuple[bytes, None]:
            return pack_rate(
                report_results(_rate(stored), self._limits[platform], now, refused_count=refused_count, is_slow=is_slow)
            ), None

        if refused_count or is_slow:
            self._hashes.change([_rate_cell(platform)], rule)


class RedisFrequencyCaps:
    """Alert histories of members, in one hash per block.

    A hash expires HISTORY_KEPT_FOR after the block's last alert. Each alert takes 24 bytes.
    """

    def __init__(self, client: RedisClient, caps: CapLimits | None = None) -> None:
        self._caps = caps or CapLimits()
        self._hashes = CasHashes(client, HISTORY_KEPT_FOR)

    def spend(self, burst: BurstKey, tweet: str, members: Sequence[Member], now: datetime) -> Mapping[Member, Ruling]:
        alert = AlertCause.of(burst, tweet)

        def rule(_: HashCell, stored: bytes) -> tuple[bytes | None, Ruling]:
            history = _history(stored)
            ruling = ruling_on(history, alert, now, self._caps)
            if ruling is not Ruling.NEW:
                return None, ruling
            return pack_history(with_alert(history, alert, now, self._caps)), ruling

        cells = {member: _history_cell(member) for member in members}
        rulings = self._hashes.change(cells.values(), rule)
        return {member: rulings[cell] for member, cell in cells.items()}


class RedisInboxLatencyReport:
    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._script = LuaScript.load(CHECKSUM_FILE, "highest_unexpired_number")

    def publish(self, process: str, p99: timedelta, ttl: timedelta) -> None:
        self._run_script(process, p99 // _MILLISECOND, ttl // _MILLISECOND)

    def worst(self) -> timedelta | None:
        slowest = self._run_script("", 0, 0)  # without a process the script only reads
        return None if slowest is None else slowest * _MILLISECOND

    def _run_script(self, *arguments: str | int) -> int | None:
        slowest: int | None
        [slowest] = run_calls(self._client, [ScriptCall(self._script, KeyKind.INBOX_LATENCY.key(), arguments)])
        return slowest


class RedisCircuitReport:
    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._script = LuaScript.load(CHECKSUM_FILE, "expiring_values")

    def publish(self, line: str, circuit: OpenCircuit, ttl: timedelta) -> None:
        self._run_script(line, pack(circuit), ttl // _MILLISECOND)

    def read(self) -> Mapping[str, OpenCircuit]:
        reports = self._run_script("", "", 0)  # without a line the script only reads
        circuits = ((line.decode(), _circuit(packed)) for line, packed in zip(reports[::2], reports[1::2], strict=True))
        return {line: circuit for line, circuit in circuits if circuit is not None}

    def _run_script(self, *arguments: str | bytes | int) -> Sequence[bytes]:
        reports: Sequence[bytes]
        [reports] = run_calls(self._client, [ScriptCall(self._script, KeyKind.OPEN_CIRCUITS.key(), arguments)])
        return reports


def _circuit(packed: bytes) -> OpenCircuit | None:
    try:
        return unpack(OpenCircuit, packed)
    except Poison:  # written by another version: treat it as absent
        return None


def _rate(stored: bytes) -> ProviderRate | None:
    try:
        return unpack_rate(stored) if stored else None
    except Poison:  # as above
        return None


def _history(stored: bytes) -> AlertHistory:
    try:
        return unpack_history(stored)
    except Poison:  # as above
        return ()


def _rate_cell(platform: Platform) -> HashCell:
    return HashCell(KeyKind.PROVIDER_RATE.key(platform), "rate")


def _history_cell(member: Member) -> HashCell:
    return HashCell(KeyKind.ALERT_HISTORY.key(block_of(member)), str(member % BLOCK_MEMBERS))

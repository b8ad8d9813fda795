"""The end-to-end check of alerts reports every missing and every unexpected alert."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from notifier.devkit.check.check_alerts import AlertGuarantees, ArrivedAlert, ExpectedAlerts, read_alerts
from notifier.devkit.check.delivery_latency import vip_push_finding
from notifier.devkit.check.finding_and_quantiles import Finding
from notifier.devkit.fixture.sample_users_and_devices import device, platform
from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import BurstProgress, Fact, LedgerEntry, SliceState
from notifier.domain.delivery.plan import FollowerCounts, make_plan
from notifier.domain.ids import BurstKey, Member
from notifier.domain.push.alert import burst_alert
from notifier.domain.push.device import AppleToken, FirebaseInstallation, FirebaseToken, WebSubscription
from tests.unit.devkit.test_check_store import BURSTS, NOW, correct_store

OTHER_BURST = replace(BURSTS[0], key=BurstKey.parse("mention:orion#1"), tweet="another")
CAPPED = AlertGuarantees(hourly_cap=5)


@cache
def expected_alerts(*bursts: Burst) -> ExpectedAlerts:
    truth = correct_store()[2]
    alerts = ExpectedAlerts()
    for burst in (*BURSTS, *bursts):
        for shard in truth.shards(burst.key.subject):
            alerts.expect(burst, shard, truth.tiers(burst, shard), truth.with_device(shard))
    return alerts


def correct_log(*bursts: Burst) -> tuple[list[ArrivedAlert], ExpectedAlerts]:
    """Return the log of correct fakes, with a delay of three seconds, and the expected alerts."""
    alerts = expected_alerts(*bursts)
    return [
        arrival(burst, member, collapse_id)
        for collapse_id, burst in alerts.bursts.items()
        for members in alerts.expected.get(burst.key, {}).values()
        for member in sorted(members)
    ], alerts


def arrival(burst: Burst, member: Member, collapse_id: str) -> ArrivedAlert:
    at = burst.accepted_at + timedelta(seconds=3)
    return ArrivedAlert(at=at, platform=platform(member), address=address_of(member), collapse_id=collapse_id)


def address_of(member: Member) -> str:
    """Return the device's address as the fake writes it."""
    match device(member, NOW).address:
        case AppleToken(token=token) | FirebaseToken(token=token):
            return token
        case FirebaseInstallation(fid=fid):
            return fid
        case WebSubscription(endpoint=endpoint):
            return urlsplit(endpoint).path


def finished(*bursts: Burst, fact: Fact = Fact.DONE) -> list[BurstProgress]:
    heads = {burst.key: FollowerCounts(total=15_000, by_shard=(15_000,)) for burst in (BURSTS[0], *bursts)}
    heads[BURSTS[1].key] = FollowerCounts(total=1, by_shard=(0, 1))
    plans = [make_plan(burst, heads[burst.key]) for burst in (*BURSTS, *bursts)]
    return [
        BurstProgress(
            plan=plan_,
            slice_states={
                slice_: SliceState(slice=slice_, final_entry=LedgerEntry(slice=slice_, fact=fact, at=NOW))
                for slice_ in plan_.slices()
            },
        )
        for plan_ in plans
    ]


def test_correct_alerts_pass() -> None:
    lines, alerts = correct_log(OTHER_BURST)
    assert {line.platform for line in lines} == {"apns", "fcm", "web"}
    finding = alerts.finding(lines, finished(OTHER_BURST), AlertGuarantees())
    assert (finding.ok, finding.n) == (True, len(lines))


def test_repeated_alert_passes_only_after_a_kill() -> None:
    lines, alerts = correct_log()
    finding = alerts.finding([*lines, lines[0]], finished(), AlertGuarantees(forbids_repeats=False))
    assert finding.ok
    assert f"{len(lines) + 1} alerts on {len(lines)} devices, 1 of them repeated" in finding.detail
    assert not alerts.finding([*lines, lines[0]], finished(), AlertGuarantees()).ok


def test_missing_alert_fails_unless_its_slice_was_pulled() -> None:
    lines, alerts = correct_log()
    for left_out in (0, len(lines) // 2, len(lines) - 1):
        remaining = lines[:left_out] + lines[left_out + 1 :]
        assert not alerts.finding(remaining, finished(), AlertGuarantees()).ok
        assert not alerts.finding(remaining, finished(), CAPPED).ok
        assert alerts.finding(remaining, finished(fact=Fact.PULLED), AlertGuarantees()).ok


def test_unexpected_alert_fails() -> None:
    lines, alerts = correct_log()
    line = lines[0]
    for unexpected in (
        replace(line, address="fixture-3000000"),
        replace(line, address="a stranger's"),
        replace(line, collapse_id="of nothing"),
        replace(line, platform="carrier pigeon"),
    ):
        assert not alerts.finding([*lines, unexpected], finished(), AlertGuarantees(forbids_repeats=False)).ok


def test_alert_to_a_celebrity_fails() -> None:
    lines, alerts = correct_log()
    own_alert = replace(lines[0], collapse_id=burst_alert(BURSTS[1]).collapse_id)
    assert not alerts.finding([*lines, own_alert], finished(), AlertGuarantees(forbids_repeats=False)).ok


def test_run_without_alerts_fails() -> None:
    assert not correct_log()[1].finding([], finished(), AlertGuarantees()).ok
    assert not ExpectedAlerts().finding([], [], AlertGuarantees()).ok


def test_follower_of_two_mentioned_accounts_gets_one_alert() -> None:
    twin = replace(OTHER_BURST, tweet=BURSTS[0].tweet)
    lines, alerts = correct_log(twin)
    burst_keys = {collapse_id: burst.key for collapse_id, burst in alerts.bursts.items()}
    followers = [
        {line.member for line in lines if burst_keys[line.collapse_id] == burst.key} for burst in (BURSTS[0], twin)
    ]
    common = followers[0] & followers[1]
    assert common
    for skipped in (BURSTS[0], twin):
        remaining = [line for line in lines if line.member not in common or burst_keys[line.collapse_id] != skipped.key]
        assert alerts.finding(remaining, finished(twin), CAPPED).ok
        assert not alerts.finding(remaining, finished(twin), AlertGuarantees()).ok
    assert not alerts.finding(lines, finished(twin), CAPPED).ok
    assert alerts.finding(lines, finished(twin), AlertGuarantees(hourly_cap=5, caps_are_exact=False)).ok
    assert not alerts.finding([line for line in lines if line.member not in common], finished(twin), CAPPED).ok


def test_frequency_cap_must_be_reached_and_not_exceeded() -> None:
    lines, alerts = correct_log(OTHER_BURST)
    first_alerts, alerted_members = list[ArrivedAlert](), set[Member | None]()
    for line in lines:
        first_alerts += [] if line.member in alerted_members else [line]
        alerted_members.add(line.member)
    assert len(first_alerts) < len(lines)
    assert alerts.finding(first_alerts, finished(OTHER_BURST), AlertGuarantees(hourly_cap=1)).ok
    assert not alerts.finding(first_alerts, finished(OTHER_BURST), AlertGuarantees(hourly_cap=2)).ok
    assert not alerts.finding(first_alerts, finished(OTHER_BURST), AlertGuarantees(hourly_cap=0)).ok
    assert not alerts.finding(lines, finished(OTHER_BURST), AlertGuarantees(hourly_cap=1)).ok
    assert alerts.finding(lines, finished(OTHER_BURST), AlertGuarantees(hourly_cap=2)).ok


def vip_finding(seconds: float, *, judged: bool = True, since: datetime = NOW) -> Finding:
    """Return the finding for two VIPs; one of them is alerted again after a minute."""
    alerts, flags = ExpectedAlerts(), np.zeros(SHARD_MEMBERS, dtype=np.bool_)
    flags[[4, 5]] = True
    alerts.expect(BURSTS[0], 1, {Tier.P0: flags, Tier.P1: flags}, flags)
    collapse_id, late = burst_alert(BURSTS[0]).collapse_id, NOW + timedelta(seconds=seconds)
    first, second = (replace(arrival(BURSTS[0], Member(SHARD_MEMBERS + m), collapse_id), at=late) for m in (4, 5))
    repeated = replace(second, at=late + timedelta(minutes=1))
    stranger = replace(arrival(BURSTS[0], Member(7), collapse_id), at=late + timedelta(minutes=1))
    return vip_push_finding(alerts, [repeated, first, second, stranger], since=since, has_limit=judged)


def test_vip_alerts_must_arrive_within_five_seconds() -> None:
    assert (vip_finding(4.5).ok, vip_finding(4.5).value, vip_finding(4.5).n) == (True, 4.5, 2)
    assert not vip_finding(5.5).ok
    assert vip_finding(5.5, judged=False).ok
    finding = vip_finding(5.5, since=NOW + timedelta(seconds=1))
    assert (finding.ok, finding.n, finding.value) == (True, 0, None)


def test_vips_without_alerts_fail() -> None:
    alerts, flags = ExpectedAlerts(), np.ones(SHARD_MEMBERS, dtype=np.bool_)
    alerts.expect(BURSTS[0], 0, {Tier.P0: flags, Tier.P1: ~flags}, flags)
    assert not vip_push_finding(alerts, [], since=NOW, has_limit=True).ok


def test_log_lines_are_read_from_all_files(tmp_path: Path) -> None:
    line = {"at": "2026-01-05T12:00:03Z", "platform": "fcm", "to": "fixture-1", "place": "here"}
    for name in ("a", "b"):
        (tmp_path / name).write_text(
            json.dumps({**line, "id": "i", "text": "ada mentioned @nova", "again": False}) + "\n"
        )
    lines = list(read_alerts([tmp_path / "a", tmp_path / "b"]))
    assert lines == 2 * [
        ArrivedAlert(at=NOW + timedelta(seconds=3), platform="fcm", address="fixture-1", collapse_id="here")
    ]
    assert lines[0].member == 1

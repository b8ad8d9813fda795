"""The outside check of alerts finds every phone that rang and shouldn't have, or should have and didn't."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from notifier.devkit.check.check_alerts import Alerts, Promised, Rang, rang
from notifier.devkit.check.finding import Finding
from notifier.devkit.check.latency_report import vip_push
from notifier.devkit.fixture.users import device, platform
from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import BurstProgress, Fact, LedgerEntry, SliceState
from notifier.domain.delivery.plan import SetHead, plan
from notifier.domain.ids import BurstKey, Member
from notifier.domain.push.alert import alert
from notifier.domain.push.device import AppleToken, FirebaseInstallation, FirebaseToken, WebSubscription
from tests.unit.devkit.test_check_store import BURSTS, NOW, right

OTHER = replace(BURSTS[0], key=BurstKey.parse("mention:orion#1"), tweet="another")
CAPPED = Promised(caps=5)


@cache
def expected(*more: Burst) -> Alerts:
    truth = right()[2]
    alerts = Alerts()
    for burst in (*BURSTS, *more):
        for shard in truth.shards(burst.key.subject):
            alerts.expect(burst, shard, truth.tiers(burst, shard), truth.phones(shard))
    return alerts


def rung(*more: Burst) -> tuple[list[Rang], Alerts]:
    """What right fakes say, three seconds later, and what it is compared with."""
    alerts = expected(*more)
    return [
        arrived(burst, member, place)
        for place, burst in alerts.bursts.items()
        for members in alerts.expected.get(burst.key, {}).values()
        for member in sorted(members)
    ], alerts


def arrived(burst: Burst, member: Member, place: str) -> Rang:
    at = burst.accepted_at + timedelta(seconds=3)
    return Rang(at=at, platform=platform(member), to=to(member), place=place)


def to(member: Member) -> str:
    """As a fake names it."""
    match device(member, NOW).address:
        case AppleToken(token=token) | FirebaseToken(token=token):
            return token
        case FirebaseInstallation(fid=fid):
            return fid
        case WebSubscription(endpoint=endpoint):
            return urlsplit(endpoint).path


def ended(*more: Burst, fact: Fact = Fact.DONE) -> list[BurstProgress]:
    heads = {one.key: SetHead(total=15_000, counts=(15_000,)) for one in (BURSTS[0], *more)}
    heads[BURSTS[1].key] = SetHead(total=1, counts=(0, 1))
    plans = [plan(one, heads[one.key]) for one in (*BURSTS, *more)]
    return [
        BurstProgress(
            plan=found,
            standings={
                piece: SliceState(slice=piece, ended=LedgerEntry(slice=piece, fact=fact, at=NOW))
                for piece in found.slices()
            },
        )
        for found in plans
    ]


def test_alerts_that_rang_as_they_should_pass() -> None:
    lines, alerts = rung(OTHER)
    assert {one.platform for one in lines} == {"apns", "fcm", "web"}
    found = alerts.finding(lines, ended(OTHER), Promised())
    assert (found.ok, found.n) == (True, len(lines))


def test_an_alert_that_was_sent_again_is_told_where_something_was_killed_and_wrong_elsewhere() -> None:
    lines, alerts = rung()
    found = alerts.finding([*lines, lines[0]], ended(), Promised(once=False))
    assert found.ok
    assert f"{len(lines) + 1} alerts on {len(lines)} phones, 1 of them sent again" in found.detail
    assert not alerts.finding([*lines, lines[0]], ended(), Promised()).ok


def test_a_silent_phone_is_found_unless_its_slice_was_left_to_the_pull_path() -> None:
    lines, alerts = rung()
    for left_out in (0, len(lines) // 2, len(lines) - 1):
        heard = lines[:left_out] + lines[left_out + 1 :]
        assert not alerts.finding(heard, ended(), Promised()).ok
        assert not alerts.finding(heard, ended(), CAPPED).ok
        assert alerts.finding(heard, ended(fact=Fact.PULLED), Promised()).ok


def test_a_phone_too_many_is_found() -> None:
    lines, alerts = rung()
    one = lines[0]
    for wrong in (
        replace(one, to="fixture-3000000"),
        replace(one, to="a stranger's"),
        replace(one, place="of nothing"),
        replace(one, platform="carrier pigeon"),
    ):
        assert not alerts.finding([*lines, wrong], ended(), Promised(once=False)).ok


def test_a_celebrity_has_no_phone() -> None:
    lines, alerts = rung()
    own = replace(lines[0], place=alert(BURSTS[1]).collapse_id)
    assert not alerts.finding([*lines, own], ended(), Promised(once=False)).ok


def test_a_storm_without_any_alert_is_found() -> None:
    assert not rung()[1].finding([], ended(), Promised()).ok
    assert not Alerts().finding([], [], Promised()).ok


def test_whoever_follows_both_that_a_tweet_names_is_told_of_one_of_them() -> None:
    twin = replace(OTHER, tweet=BURSTS[0].tweet)
    lines, alerts = rung(twin)
    of = {place: burst.key for place, burst in alerts.bursts.items()}
    followers = [{one.member for one in lines if of[one.place] == burst.key} for burst in (BURSTS[0], twin)]
    both = followers[0] & followers[1]
    assert both
    for spared in (BURSTS[0], twin):
        heard = [one for one in lines if one.member not in both or of[one.place] != spared.key]
        assert alerts.finding(heard, ended(twin), CAPPED).ok
        assert not alerts.finding(heard, ended(twin), Promised()).ok
    assert not alerts.finding(lines, ended(twin), CAPPED).ok
    assert alerts.finding(lines, ended(twin), Promised(caps=5, counted=False)).ok
    assert not alerts.finding([one for one in lines if one.member not in both], ended(twin), CAPPED).ok


def test_beyond_the_cap_a_phone_is_silent_and_up_to_it_none_is() -> None:
    lines, alerts = rung(OTHER)
    first, seen = list[Rang](), set[Member | None]()
    for one in lines:
        first += [] if one.member in seen else [one]
        seen.add(one.member)
    assert len(first) < len(lines)
    assert alerts.finding(first, ended(OTHER), Promised(caps=1)).ok
    assert not alerts.finding(first, ended(OTHER), Promised(caps=2)).ok
    assert not alerts.finding(first, ended(OTHER), Promised(caps=0)).ok
    assert not alerts.finding(lines, ended(OTHER), Promised(caps=1)).ok
    assert alerts.finding(lines, ended(OTHER), Promised(caps=2)).ok


def vips_alerted(seconds: float, *, judged: bool = True, since: datetime = NOW) -> Finding:
    """Two VIPs of whom the one was told twice, late the second time."""
    alerts, some = Alerts(), np.zeros(SHARD_MEMBERS, dtype=np.bool_)
    some[[4, 5]] = True
    alerts.expect(BURSTS[0], 1, {Tier.P0: some, Tier.P1: some}, some)
    place, late = alert(BURSTS[0]).collapse_id, NOW + timedelta(seconds=seconds)
    one, other = (replace(arrived(BURSTS[0], Member(SHARD_MEMBERS + m), place), at=late) for m in (4, 5))
    again = replace(other, at=late + timedelta(minutes=1))
    stranger = replace(arrived(BURSTS[0], Member(7), place), at=late + timedelta(minutes=1))
    return vip_push(alerts, [again, one, other, stranger], since=since, judged=judged)


def test_vips_are_alerted_within_five_seconds_of_the_event() -> None:
    assert (vips_alerted(4.5).ok, vips_alerted(4.5).value, vips_alerted(4.5).n) == (True, 4.5, 2)
    assert not vips_alerted(5.5).ok
    assert vips_alerted(5.5, judged=False).ok
    later = vips_alerted(5.5, since=NOW + timedelta(seconds=1))
    assert (later.ok, later.n, later.value) == (True, 0, None)


def test_vips_of_whom_none_is_alerted_are_no_quick_ones() -> None:
    alerts, some = Alerts(), np.ones(SHARD_MEMBERS, dtype=np.bool_)
    alerts.expect(BURSTS[0], 0, {Tier.P0: some, Tier.P1: ~some}, some)
    assert not vip_push(alerts, [], since=NOW, judged=True).ok


def test_lines_of_the_fakes_are_read_from_all_their_files(tmp_path: Path) -> None:
    line = {"at": "2026-01-05T12:00:03Z", "platform": "fcm", "to": "fixture-1", "place": "here"}
    for name in ("a", "b"):
        (tmp_path / name).write_text(
            json.dumps({**line, "id": "i", "text": "ada mentioned @nova", "again": False}) + "\n"
        )
    found = list(rang([tmp_path / "a", tmp_path / "b"]))
    assert found == 2 * [Rang(at=NOW + timedelta(seconds=3), platform="fcm", to="fixture-1", place="here")]
    assert found[0].member == 1

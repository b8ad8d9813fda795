"""What `explain` says of a person's phones: from windows, a seal, a ledger and what stands, and nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import time, timedelta
from typing import Any

import pytest

from notifier.cli.commands.explain.command import explanation
from notifier.cli.commands.explain.push import Alerting, AlertState, Case, ExplainRule, alertings
from notifier.cli.commands.explain.text import WORDS, alert_facts, alert_words
from notifier.domain.audience.bitmap import Bits, from_offsets, nobody
from notifier.domain.audience.snapshot import Seal
from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.ledger import Fact, LedgerEntry, State, account
from notifier.domain.delivery.slice import Step
from notifier.domain.ids import Member, Platform, UserId
from notifier.domain.push.device import AppleToken, Device, FirebaseToken
from notifier.domain.push.receipt import RetryAt
from notifier.domain.push.send_log import AlertOutcome, FailedAttempt, Try, Why, Window
from notifier.domain.users.account_preferences import NOTHING_SAID, Overall
from notifier.domain.users.quiet_hours import Hours
from notifier.domain.users.visibility import HiddenReason, Mark, Marks, Unpushed
from tests.cli.reads import reads_of
from tests.support.examples import ADA, HOUR, MINUTE, NOON, SECOND, burst, entry, piece, plan_of, viewer
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import driven

BOB, OTHER = Member(7), Member(8)
"""Of P1 both; bob is the viewer."""
PHONE = Device(member=BOB, address=FirebaseToken(token="t" * 40), registered_at=NOON - HOUR)
OTHER_PHONE = replace(PHONE, address=FirebaseToken(token="u" * 40))
TRIED = Try(device=PHONE.id, member=BOB, first=NOON, tries=1)
RINGS = piece(Tier.P1, step=Step.FCM)
PLAN = plan_of(pushed=(Tier.P0, Tier.P1, Tier.P2, Tier.DORMANT))
LATER = NOON + MINUTE
NIGHT = Overall(quiet=Hours(start=time(11), end=time(14)))


def people(*members: int) -> Bits:
    return from_offsets(members)


def window(**fields: Any) -> Window:
    given: dict[str, Any] = {"n": 0, "at": NOON, "people": people(BOB, OTHER), "missed": ()}
    return Window(**given | fields)


def again(**fields: Any) -> Window:
    return window(n=1, at=LATER, people=nobody(), again=(TRIED,), **fields)


def missed(fate: AlertOutcome, *, to: Try = TRIED, after: timedelta | None = None) -> FailedAttempt:
    return FailedAttempt(tried=to, fate=fate, at=None if after is None else NOON + after, reason="busy")


def sealed(*, tier: Tier | None = Tier.P1, push: bool = True) -> Seal:
    return Seal(
        shard=0,
        opened_at=NOON,
        tiers={each: people(BOB) if each is tier else nobody() for each in TIERS},
        push=people(BOB) if push else nobody(),
        dormant=0,
        suppressed={},
    )


def case(*windows: Window, entries: Sequence[LedgerEntry] = (), overall: Overall = NOTHING_SAID, **fields: Any) -> Case:
    given: dict[str, Any] = {
        "burst": burst(),
        "viewer": replace(viewer(), overall=overall),
        "member": BOB,
        "seal": sealed(),
        "account": account(PLAN, entries, ()),
        "devices": [PHONE],
        "windows": {Platform.FCM: windows},
        "now": NOON + SECOND,
    }
    return Case(**given | fields)


def told(of: Case) -> Alerting:
    [found] = alertings(of)
    assert found.platform is Platform.FCM
    return found


def test_who_was_sent_it_and_took_it_reads_when() -> None:
    found = told(case(window()))
    assert (found.told, found.at, list(found.devices)) == (AlertState.SENT, NOON, [])
    assert alert_words(found) == "sent at 2026-01-05T12:00:00.000Z"


@pytest.mark.parametrize("why", Why)
def test_who_was_left_out_of_a_window_reads_by_which_rule(why: Why) -> None:
    found = told(case(window(silent={why: people(BOB)})))
    assert (found.told, found.rule, found.at) == (AlertState.SILENT, why, NOON)
    assert told(case(window(silent={why: people(OTHER)}))).told is AlertState.SENT


def test_what_others_had_of_a_window_is_not_the_persons() -> None:
    theirs = missed(AlertOutcome.DROPPED, to=replace(TRIED, member=OTHER))
    assert told(case(window(missed=(theirs,)))).devices == []
    assert told(case(window(people=people(OTHER)))).told is AlertState.TO_COME


def test_a_summary_says_for_how_many_bursts_it_stands() -> None:
    found = told(case(window(away={(4, 7): people(BOB), (7,): people(OTHER)})))
    assert (found.told, found.stands_for) == (AlertState.SENT, 3)
    assert "for 3 of the account" in alert_words(found)


@pytest.mark.parametrize("fate", [AlertOutcome.RETRY, AlertOutcome.UNKNOWN])
def test_what_is_tried_again_is_told_with_its_moment_and_its_tries(fate: AlertOutcome) -> None:
    found = told(case(window(missed=(missed(fate, after=MINUTE),))))
    [device] = found.devices
    assert (found.told, found.until) == (AlertState.AGAIN, LATER)
    assert (device.fate, device.tries, device.until, device.reason) == (fate, 1, LATER, "busy")


@pytest.mark.parametrize(
    "fate", [AlertOutcome.DROPPED, AlertOutcome.REFUSED, AlertOutcome.GIVEN_UP, AlertOutcome.SPARED]
)
def test_what_is_never_tried_again_is_told_with_its_reason(fate: AlertOutcome) -> None:
    found = told(case(window(missed=(missed(fate),))))
    assert (found.told, found.until, [one.fate for one in found.devices]) == (AlertState.TRIED, None, [fate])
    assert alert_words(found).startswith("tried at 2026-01-05T12:00:00.000Z; ")
    assert "busy" in alert_words(found)
    assert told(case(window(missed=(missed(fate),)), devices=[PHONE, OTHER_PHONE])).told is AlertState.SENT
    new = replace(OTHER_PHONE, registered_at=LATER)
    assert told(case(window(missed=(missed(fate),)), devices=[PHONE, new])).told is AlertState.TRIED


def test_of_a_device_the_latest_window_counts() -> None:
    first = window(missed=(missed(AlertOutcome.RETRY, after=MINUTE),))
    [going] = told(case(first, again(missed=None))).devices
    [taken] = told(case(again(), first)).devices
    assert (going.going, going.until) == (True, None)
    assert (taken.going, taken.fate, taken.tries) == (False, None, 1)
    assert told(case(first, again(missed=None))).told is AlertState.ON_ITS_WAY


def test_a_window_that_was_not_closed_is_on_its_way_until_its_slice_has_ended() -> None:
    open_window = window(missed=None)
    assert told(case(open_window)).told is AlertState.ON_ITS_WAY
    ended = told(case(open_window, entries=[entry(RINGS, Fact.PULLED)]))
    assert (ended.told, ended.devices) == (AlertState.UNKNOWN, [])


def test_who_has_seen_it_is_not_sent_it_again() -> None:
    found = told(seen_by(case(window(missed=(missed(AlertOutcome.RETRY, after=MINUTE),)))))
    assert (found.told, found.rule, found.until) == (AlertState.TRIED, Unpushed.SEEN, None)
    assert f"and not again: {WORDS[Unpushed.SEEN]}" in alert_words(found)
    assert [one.until for one in found.devices] == [None]
    assert told(seen_by(case(window()))).rule is None


def seen_by(of: Case) -> Case:
    return replace(of, viewer=replace(of.viewer, marks=Marks(seen_at=NOON + HOUR)))


SPARED: Mapping[Unpushed | HiddenReason | ExplainRule, Case] = {
    Unpushed.ALERTS_OFF: case(overall=Overall(push=False)),
    Unpushed.OPENER_BLOCKED: case(
        viewer=viewer(blocked=[ADA]), burst=burst(mentioners=(ADA, UserId("eve")), more_mentioners=True)
    ),
    Unpushed.MARKED: case(viewer=viewer(marks=Marks(by_burst={burst().key: Mark.READ}))),
    Unpushed.SEEN: seen_by(case()),
    HiddenReason.NOT_FOLLOWED: case(viewer=viewer(follows={})),
    HiddenReason.RETRACTED: case(burst=burst(count=0)),
    ExplainRule.TAKEN_BACK: case(burst=replace(burst(), silent=True)),
}


@pytest.mark.parametrize("rule", SPARED, ids=str)
def test_who_is_spared_it_reads_by_what(rule: Unpushed | HiddenReason | ExplainRule) -> None:
    found = told(SPARED[rule])
    assert (found.told, found.rule) == (AlertState.SPARED, rule)
    assert alert_words(found) == f"spared: {WORDS[rule]}"


NEVER: Mapping[ExplainRule, Case] = {
    ExplainRule.ROW_ONLY: case(burst=burst(verdict=Verdict.ROW)),
    ExplainRule.PULL_ONLY: case(burst=replace(burst(), pull_only=True)),
    ExplainRule.NO_PROVIDER: case(account=account(replace(PLAN, platforms=(Platform.APNS,)), (), ())),
    ExplainRule.NO_PHONE: case(seal=sealed(push=False)),
    ExplainRule.NOT_ASKED: case(seal=sealed(tier=Tier.P2, push=False)),
    ExplainRule.LATE: case(entries=[entry(RINGS, Fact.PULLED)]),
    ExplainRule.DEAD: case(entries=[entry(RINGS, Fact.DEAD)]),
    ExplainRule.PASSED: case(entries=[entry(RINGS, Fact.DONE)]),
    ExplainRule.NOT_SEALED: case(seal=None, account=account(plan_of(shards=0), (), ())),
}


@pytest.mark.parametrize("rule", NEVER, ids=str)
def test_who_gets_none_reads_why(rule: ExplainRule) -> None:
    found = told(NEVER[rule])
    assert (found.told, found.rule) == (AlertState.NEVER, rule)
    assert alert_words(found) == f"none: {WORDS[rule]}"


def test_where_all_of_a_tier_is_alerted_nobody_of_it_has_to_ask() -> None:
    everybody = case(seal=sealed(tier=Tier.P2, push=False), pushed=TIERS)
    assert told(everybody).rule is ExplainRule.NO_PHONE


def test_whoever_asked_and_got_none_had_no_phone() -> None:
    asked = Overall(push=True)
    assert told(case(seal=sealed(tier=Tier.P2, push=False), overall=asked)).rule is ExplainRule.NO_PHONE
    assert told(case(seal=sealed(tier=None, push=False), overall=asked)).rule is ExplainRule.NO_PHONE
    assert told(case(seal=sealed(tier=None, push=False))).rule is ExplainRule.NOT_ASKED


def test_what_waits_says_until_when_and_for_what() -> None:
    asleep = told(case(overall=NIGHT))
    late = told(case(overall=Overall(quiet=Hours(start=time(11), end=time(14, 1)))))
    rests = told(case(entries=[entry(RINGS, Fact.WAITS, n=1, at=LATER)]))
    assert (asleep.told, asleep.rule, asleep.until) == (AlertState.WAITING, ExplainRule.QUIET_HOURS, NOON + 2 * HOUR)
    assert late.until == NOON + 2 * HOUR + 15 * MINUTE
    assert (rests.told, rests.rule, rests.until) == (AlertState.WAITING, ExplainRule.PROVIDER, LATER)


def test_the_dormant_wait_for_slices_of_their_own() -> None:
    waits = entry(piece(Tier.DORMANT, step=Step.FCM), Fact.WAITS, n=1, at=LATER)
    assert told(case(seal=sealed(tier=None), entries=[waits])).until == LATER
    assert told(case(seal=sealed(tier=Tier.P2), entries=[waits])).told is AlertState.TO_COME


@pytest.mark.parametrize(
    ("found", "rule"),
    [
        (case(), State.PLANNED),
        (case(seal=None), State.PLANNED),
        (case(account=None), State.PLANNED),
        (case(entries=[entry(RINGS, Fact.DISPATCHED, n=1)]), State.IN_FLIGHT),
    ],
    ids=["planned", "not sealed", "no plan", "queued"],
)
def test_what_is_to_come_says_how_its_slice_stands(found: Case, rule: State) -> None:
    assert (told(found).told, told(found).rule) == (AlertState.TO_COME, rule)


def test_each_provider_of_which_the_person_has_a_device_or_had_one_is_told_of() -> None:
    apple = Device(member=BOB, address=AppleToken(token="a" * 64, topic="app"), registered_at=NOON)
    found = alertings(case(window(), devices=[apple]))
    assert [(one.platform, one.told) for one in found] == [
        (Platform.APNS, AlertState.TO_COME),
        (Platform.FCM, AlertState.SENT),
    ]
    assert alertings(case(devices=[])) == []


def test_programs_read_names_that_stay() -> None:
    found = alert_facts(told(case(window(missed=(missed(AlertOutcome.RETRY, after=MINUTE),)))))
    assert found == {
        "platform": "fcm",
        "state": "again",
        "rule": None,
        "because": found["because"],
        "at": "2026-01-05T12:00:00.000Z",
        "until": "2026-01-05T12:01:00.000Z",
        "stands_for": 1,
        "devices": [
            {
                "device": PHONE.id,
                "state": "retry",
                "tries": 1,
                "until": "2026-01-05T12:01:00.000Z",
                "reason": "busy",
            }
        ],
    }


def test_an_alert_is_followed_from_its_seal_to_its_last_try() -> None:
    stage, kim = Stage(), UserId("kim")
    member = Member(stage.scene.people["kim"].member)
    [phone] = stage.ground.devices.of([member])[member]
    stage.ground.phones.says[phone.id] = [RetryAt(at=stage.ground.clock.now() + MINUTE, reason="busy")]
    stage.mention("nova")
    states = [said(stage, kim)]
    for _ in range(3):
        stage.deliver_others()
    states.append(said(stage, kim))
    stage.deliver(rounds=90)
    states.append(said(stage, kim))
    assert states == [("to_come", []), ("again", ["retry"]), ("sent", ["sent"])]


def said(stage: Stage, user: UserId) -> tuple[str, list[str]]:
    found: dict[str, Any] = driven(explanation(stage.ports, lambda: reads_of(stage), stage.bursts()[0], user))
    [alert] = found["alerts"]
    return alert["state"], [device["state"] for device in alert["devices"]]

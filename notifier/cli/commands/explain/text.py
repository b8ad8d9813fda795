"""Text of `notifier explain` for alerts and digests, and their JSON with stable names."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

import click

from notifier.cli.commands.explain.push import Alerting, AlertState, ExplainRule, Noted
from notifier.cli.commands.tab import digest_facts
from notifier.cli.output import SHOWN_OF_ID, maybe_stamp, print_facts, print_sentence, stamp
from notifier.domain.bursts.burst import expires_at
from notifier.domain.errors import NotFound
from notifier.domain.ids import BurstKey, UserId
from notifier.domain.push.send_log import AlertOutcome, Why
from notifier.domain.users.digest import Digest, Schedule, date_in
from notifier.domain.users.visibility import HiddenReason, Unpushed, unread
from notifier.flow.inbox.digests import digests_by
from notifier.flow.inbox.page import InboxView
from notifier.ports.all_ports import ReadPorts
from notifier.ports.coordination import Clock

Facts = Mapping[str, object]

WORDS: Mapping[str, str] = {
    Why.HOURLY: "the person had as many in an hour as a phone gets",
    Why.DAILY: "the person had as many in a day as a phone gets",
    Why.SAME_TWEET: "of the very tweet the person was told already, by another account",
    Why.COLLAPSED: "a later one of the account tells of it, too",
    Unpushed.ALERTS_OFF: "the person wants no alerts",
    Unpushed.OPENER_BLOCKED: "a block parts the person from its opener",
    Unpushed.MARKED: "the person has dealt with it",
    Unpushed.SEEN: "the person has seen it",
    **dict.fromkeys(HiddenReason, "the person doesn't see it"),
    HiddenReason.RETRACTED: "it was retracted",
    ExplainRule.TAKEN_BACK: "the tweet that it opened with was taken back",
    ExplainRule.QUIET_HOURS: "the person's quiet hours",
    ExplainRule.PROVIDER: "the provider is left alone for a while, or has no room",
    ExplainRule.ROW_ONLY: "it is in lists alone",
    ExplainRule.PULL_ONLY: "it is served by pull alone",
    ExplainRule.NOT_SEALED: "its seal has expired",
    ExplainRule.NO_PROVIDER: "when it was planned, alerts had no way to this provider",
    ExplainRule.NO_PHONE: "the person had no phone when it was sealed, or wanted no alerts then",
    ExplainRule.NOT_ASKED: "the person is in no tier that gets alerts, and didn't ask for them",
    ExplainRule.LATE: "it was too late for one",
    ExplainRule.DEAD: "its slice is dead",
    ExplainRule.PASSED: "when its turn came there was no phone here, or something spared the person",
}
"""Explanation of each rule. States of a slice are shown by their names."""

SAID: Mapping[AlertState, str] = {
    AlertState.SENT: "sent at {at}{of}",
    AlertState.TRIED: "tried at {at}{of}",
    AlertState.AGAIN: "sent at {at}{of}, and again at {until}",
    AlertState.ON_ITS_WAY: "on its way since {at}{of}",
    AlertState.UNKNOWN: "on its way at {at}{of} when its worker died: it may have arrived",
    AlertState.SILENT: "silent at {at}: {why}",
    AlertState.SPARED: "spared: {why}",
    AlertState.WAITING: "waits until {until}: {why}",
    AlertState.TO_COME: "to come, {why}",
    AlertState.NEVER: "none: {why}",
}
"""Sentence for each state of an alert."""

UNTAKEN = "tried at {at}{of}, and again at {until}"
"""Sentence for AGAIN if no device has the alert."""

NOTED: Mapping[AlertOutcome | None, str] = {
    None: "took it at last",
    AlertOutcome.RETRY: "didn't take it",
    AlertOutcome.HELD: "waits",
    AlertOutcome.UNKNOWN: "may have it",
    AlertOutcome.DROPPED: "is gone, says its provider",
    AlertOutcome.REFUSED: "was refused the alert",
    AlertOutcome.GIVEN_UP: "is given up",
    AlertOutcome.SPARED: "is told no more",
}
"""Sentence for the last outcome of a device."""


def alert_facts(of: Alerting) -> Facts:
    return {
        "platform": str(of.platform),
        "state": str(of.told),
        "rule": None if of.rule is None else str(of.rule),
        "because": alert_words(of),
        "at": maybe_stamp(of.at),
        "until": maybe_stamp(of.until),
        "stands_for": of.stands_for,
        "devices": [_device_facts(device) for device in of.devices],
    }


def _device_facts(one: Noted) -> Facts:
    return {
        "device": one.device,
        "state": "on_its_way" if one.going else str(one.fate or "sent"),
        "tries": one.tries,
        "until": maybe_stamp(one.until),
        "reason": one.reason,
    }


def alert_words(of: Alerting) -> str:
    template = UNTAKEN if of.told is AlertState.AGAIN and not of.taken else SAID[of.told]
    text = template.format(at=maybe_stamp(of.at), until=maybe_stamp(of.until), why=_why(of), of=_summary(of))
    if of.told in (AlertState.SENT, AlertState.TRIED) and of.rule is not None:
        text += f", and not again: {_why(of)}"
    return "; ".join([text, *map(_device_words, of.devices)])


def _why(of: Alerting) -> str:
    return "" if of.rule is None else WORDS.get(of.rule, str(of.rule).replace("_", " "))


def _summary(of: Alerting) -> str:
    return f" for {of.stands_for} of the account" if of.stands_for > 1 else ""


def _device_words(one: Noted) -> str:
    state = "is sent to again" if one.going else NOTED[one.fate]
    return f"{one.device[:SHOWN_OF_ID]} {state}" + "".join(f", {detail}" for detail in _details(one))


def _details(one: Noted) -> Iterable[str]:
    if one.reason:
        yield one.reason.removesuffix(".")
    if one.tries:
        yield "1 try" if one.tries == 1 else f"{one.tries} tries"
    if one.until is not None:
        yield f"again at {maybe_stamp(one.until)}"


# Digests: when they are due, what they contain, and why a user sees them or not.

SENTENCES = {
    None: "The person sees it.",
    "to_come": "It falls due later.",
    "expired": "It is older than 90 days.",
    "empty": "Of what opened before it, nothing is told to the person by digest.",
    "hidden": "The person has hidden it.",
}


async def digest_explanation(
    clock: Clock, connect: Callable[[], ReadPorts], key: BurstKey, user: UserId
) -> dict[str, object]:
    """Return the object that `--json` prints for a digest.

    Raises NotFound for an unknown user, the digest of another user, or a date that has none in the user's time zone.
    """
    reads = connect()
    member = await reads.people.member(user)
    if member is None:
        raise NotFound(f"The user is {user}.")
    view = InboxView(viewer=await reads.people.viewer(user, member), member=member, now=clock.now())
    due = _due(view, key)
    digest = (await digests_by(reads.timeline, view, [key])).get(key)
    reason = _digest_reason(digest, view, due)
    return {
        "burst": str(key),
        "user": user,
        "member": member,
        "visible": reason is None,
        "rule": reason,
        "because": SENTENCES[reason],
        "due_at": stamp(due),
        "digest": digest_facts(digest) if digest else None,
        "marks": _marks(view, key, digest),
    }


def _due(look: InboxView, key: BurstKey) -> datetime:
    day = date_in(key)
    due = None if day is None else Schedule.of(look.viewer.overall).due(day)
    if due is None or key.subject.owner != look.viewer.user:
        raise NotFound(f"{look.viewer.user} has no digest {key}.")
    return due


def _digest_reason(digest: Digest | None, look: InboxView, due: datetime) -> str | None:
    if due > look.now:
        return "to_come"
    if expires_at(due) <= look.now:
        return "expired"
    if digest is None:
        return "empty"
    return None if look.admits(digest) else "hidden"


def _marks(look: InboxView, key: BurstKey, digest: Digest | None) -> Mapping[str, object]:
    mark = look.viewer.marks.by_burst.get(key)
    return {
        "mark": str(mark) if mark else None,
        "seen_at": maybe_stamp(look.viewer.marks.seen_at),
        "unread": digest is not None and unread(digest, look.viewer),
    }


def print_digest(found: Mapping[str, object]) -> None:
    digest, marks = found["digest"], found["marks"]
    assert isinstance(marks, dict)
    print_sentence(f"{found['burst']} and {found['user']}: {found['because']}")
    click.echo()
    content = {"tells of": _told(digest)} if isinstance(digest, dict) else {}
    seen = {"mark": marks["mark"] or "none", "seen up to": marks["seen_at"] or "nothing"}
    print_facts({"due": found["due_at"], **content, **seen})


def _told(digest: Mapping[str, object]) -> str:
    inside = digest["inside"]
    assert isinstance(inside, list)
    return ", ".join(inside) + (" and more" if digest["more"] else "")

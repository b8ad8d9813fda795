"""Text of `notifier explain` for alerts and digests, and their JSON with stable names."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

import click

from notifier.cli.commands.explain.alerts import AlertState, DeviceState, ExplainedAlert, ExplainRule
from notifier.cli.commands.inbox import digest_json
from notifier.cli.output import SHOWN_ID_LENGTH, iso_time, iso_time_or_none, print_fields, print_sentence
from notifier.domain.bursts.burst import expires_at
from notifier.domain.errors import NotFound
from notifier.domain.ids import BurstKey, UserId
from notifier.domain.push.send_log import AlertOutcome, SilentReason
from notifier.domain.users.digest import Digest, DigestSchedule, date_of
from notifier.domain.users.visibility import HiddenReason, SuppressionReason, is_unread
from notifier.flow.inbox.digest_walk import read_digests
from notifier.flow.inbox.page import InboxView
from notifier.ports.all_ports import ReadPorts
from notifier.ports.leases_queues_throttles_clock import Clock

JsonObject = Mapping[str, object]

REASON_TEXTS: Mapping[str, str] = {
    SilentReason.HOURLY: "the user had reached the hourly frequency cap",
    SilentReason.DAILY: "the user had reached the daily frequency cap",
    SilentReason.SAME_TWEET: "the user was already alerted of the same tweet, through another account",
    SilentReason.COLLAPSED: "a later alert of the account also covers it",
    SuppressionReason.ALERTS_OFF: "the user has turned alerts off",
    SuppressionReason.OPENER_BLOCKED: "there is a user block between the user and the author of its first tweet",
    SuppressionReason.MARKED: "the user has marked it as read or hidden",
    SuppressionReason.SEEN: "the user has seen it",
    **dict.fromkeys(HiddenReason, "the user doesn't see it"),
    HiddenReason.RETRACTED: "it was retracted",
    ExplainRule.OPENER_RETRACTED: "the tweet that opened it was retracted",
    ExplainRule.QUIET_HOURS: "the user's quiet hours",
    ExplainRule.SLICE_DEFERRED: "its slice is deferred, by the provider's circuit breaker or rate limit, a retry,"
    " or a newer burst",
    ExplainRule.ROW_ONLY: "its verdict allows inbox rows only",
    ExplainRule.PULL_ONLY: "it is delivered by the pull path only",
    ExplainRule.NO_SNAPSHOT: "its audience snapshot has expired, or was never taken",
    ExplainRule.NO_PROVIDER: "alerts by this provider were not configured when it was planned",
    ExplainRule.NO_DEVICE: "the user had no device, or had turned alerts off, when the audience snapshot was taken",
    ExplainRule.OFF_BY_DEFAULT: "the user's tier gets no alerts by default, and the user has not turned them on",
    ExplainRule.TOO_LATE: "it was too late for an alert",
    ExplainRule.DEAD: "its slice is dead",
    ExplainRule.SKIPPED: "the user had no device for this provider, or was suppressed, when the slice was sent",
}
"""Explanation of each rule. A rule that is the state of a slice has no text here: its name is shown."""

STATE_TEXTS: Mapping[AlertState, str] = {
    AlertState.SENT: "sent at {at}{summary}",
    AlertState.FAILED: "tried at {at}{summary}",
    AlertState.RETRYING: "sent at {at}{summary}, next attempt at {until}",
    AlertState.SENDING: "being sent since {at}{summary}",
    AlertState.UNKNOWN: "being sent at {at}{summary}, and the result is not recorded: it may have arrived",
    AlertState.SILENT: "suppressed at {at}: {reason}",
    AlertState.SUPPRESSED: "suppressed now: {reason}",
    AlertState.DEFERRED: "deferred until {until}: {reason}",
    AlertState.PENDING: "not sent yet: {reason}",
    AlertState.NEVER: "none: {reason}",
}

UNRECEIVED_RETRY_TEXT = "tried at {at}{summary}, next attempt at {until}"
"""Sentence for RETRYING if no device has received the alert."""

DEVICE_TEXTS: Mapping[AlertOutcome | None, str] = {
    None: "accepted it after a retry",
    AlertOutcome.RETRY: "didn't accept it",
    AlertOutcome.HELD: "got no alert, because the provider's circuit breaker was open",
    AlertOutcome.UNKNOWN: "may have received it",
    AlertOutcome.DROPPED: "doesn't exist any more, according to its provider",
    AlertOutcome.REFUSED: "got no alert, because the provider rejected it",
    AlertOutcome.GIVEN_UP: "gets no further attempt",
    AlertOutcome.SUPPRESSED: "is suppressed, or no longer belongs to the user",
}
"""Text for the result of a device's last attempt. It follows the device's id in a sentence."""


def alert_json(alert: ExplainedAlert) -> JsonObject:
    return {
        "platform": str(alert.platform),
        "state": str(alert.state),
        "rule": None if alert.rule is None else str(alert.rule),
        "explanation": alert_text(alert),
        "at": iso_time_or_none(alert.at),
        "until": iso_time_or_none(alert.until),
        "bursts": alert.burst_count,
        "devices": [_device_json(device) for device in alert.devices],
    }


def _device_json(device: DeviceState) -> JsonObject:
    return {
        "device": device.device,
        "state": "sending" if device.is_sending else str(device.last_failure or "sent"),
        "failed_attempts": device.failed_attempts,
        "until": iso_time_or_none(device.next_attempt_at),
        "reason": device.reason,
    }


def alert_text(alert: ExplainedAlert) -> str:
    template = (
        UNRECEIVED_RETRY_TEXT
        if alert.state is AlertState.RETRYING and not alert.may_be_received
        else STATE_TEXTS[alert.state]
    )
    text = template.format(
        at=iso_time_or_none(alert.at),
        until=iso_time_or_none(alert.until),
        reason=_reason_text(alert),
        summary=_summary_text(alert),
    )
    if alert.state in (AlertState.SENT, AlertState.FAILED) and alert.rule is not None:
        text += f", no further attempt: {_reason_text(alert)}"
    return "; ".join([text, *map(_device_text, alert.devices)])


def _reason_text(alert: ExplainedAlert) -> str:
    return "" if alert.rule is None else REASON_TEXTS.get(alert.rule, str(alert.rule).replace("_", " "))


def _summary_text(alert: ExplainedAlert) -> str:
    return f" for {alert.burst_count} bursts of the account" if alert.burst_count > 1 else ""


def _device_text(device: DeviceState) -> str:
    state = "is being retried" if device.is_sending else DEVICE_TEXTS[device.last_failure]
    return f"{device.device[:SHOWN_ID_LENGTH]} {state}" + "".join(f", {detail}" for detail in _details(device))


def _details(device: DeviceState) -> Iterable[str]:
    if device.reason:
        yield device.reason.removesuffix(".")
    if device.failed_attempts:
        yield "1 failed attempt" if device.failed_attempts == 1 else f"{device.failed_attempts} failed attempts"
    if device.next_attempt_at is not None:
        yield f"next attempt at {iso_time_or_none(device.next_attempt_at)}"


# Digests.

DIGEST_SENTENCES = {
    None: "The user sees it.",
    "not_due": "It is not due yet.",
    "expired": "It is older than 90 days.",
    "empty": "It is empty: no burst since the previous digest belongs in it.",
    "hidden": "The user has hidden it.",
}


async def digest_explanation(
    clock: Clock, connect: Callable[[], ReadPorts], key: BurstKey, user: UserId
) -> dict[str, object]:
    """Return the object that `--json` prints for a digest.

    Raises NotFound for an unknown user, or if the user has no digest with this key.
    """
    reads = connect()
    member = await reads.people.member(user)
    if member is None:
        raise NotFound(f"User {user} doesn't exist.")
    view = InboxView(viewer=await reads.people.viewer(user, member), member=member, now=clock.now())
    due = _due_at(view, key)
    digest = (await read_digests(reads.timeline, view, [key])).get(key)
    reason = _digest_reason(digest, view, due)
    return {
        "burst": str(key),
        "user": user,
        "member": member,
        "visible": reason is None,
        "rule": reason,
        "explanation": DIGEST_SENTENCES[reason],
        "due_at": iso_time(due),
        "digest": digest_json(digest) if digest else None,
        "marks": _mark_json(view, key, digest),
    }


def _due_at(view: InboxView, key: BurstKey) -> datetime:
    day = date_of(key)
    due = None if day is None else DigestSchedule.of(view.viewer.account_preferences).due_time_or_none(day)
    if due is None or key.subject.owner != view.viewer.user:
        raise NotFound(f"{view.viewer.user} has no digest {key}.")
    return due


def _digest_reason(digest: Digest | None, view: InboxView, due: datetime) -> str | None:
    if due > view.now:
        return "not_due"
    if expires_at(due) <= view.now:
        return "expired"
    if digest is None:
        return "empty"
    return None if view.is_visible(digest) else "hidden"


def _mark_json(view: InboxView, key: BurstKey, digest: Digest | None) -> Mapping[str, object]:
    mark = view.viewer.marks.by_burst.get(key)
    return {
        "mark": str(mark) if mark else None,
        "seen_at": iso_time_or_none(view.viewer.marks.seen_at),
        "unread": digest is not None and is_unread(digest, view.viewer),
    }


def print_digest(report: Mapping[str, object]) -> None:
    digest, marks = report["digest"], report["marks"]
    assert isinstance(marks, dict)
    print_sentence(f"{report['burst']} and {report['user']}: {report['explanation']}")
    click.echo()
    content = {"contains": _digest_text(digest)} if isinstance(digest, dict) else {}
    seen = {"mark": marks["mark"] or "none", "seen up to": marks["seen_at"] or "nothing"}
    print_fields({"due": report["due_at"], **content, **seen})


def _digest_text(digest: Mapping[str, object]) -> str:
    bursts = digest["bursts"]
    assert isinstance(bursts, list)
    return ", ".join(bursts) + (" and more" if digest["more"] else "")

"""Command `notifier explain`: explains from recorded facts why a user sees a burst or not."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from pathlib import Path

import click

from notifier.cli.command_groups_and_errors import example
from notifier.cli.commands.explain.alert_and_digest_text import alert_json
from notifier.cli.commands.explain.alerts import ExplainedCase, explained_alerts
from notifier.cli.options import AccountParam, data_option, json_option, settings_for
from notifier.cli.output import iso_time, iso_time_or_none, print_fields, print_json, print_sentence
from notifier.domain.audience.bitmap import contains, shard_of
from notifier.domain.audience.inbox_rows import InboxRow, range_of
from notifier.domain.audience.snapshot import DEFAULT_PUSHED_TIERS, AudienceSnapshot
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.delivery.slice_and_pool import Step
from notifier.domain.errors import NotFound
from notifier.domain.ids import BurstKey, Kind, Member, Platform, UserId
from notifier.domain.push.send_log import SendBatch
from notifier.domain.users.digest import DigestSchedule, digest_key, is_in_digest
from notifier.domain.users.subject_preferences import NEVER
from notifier.domain.users.visibility import HiddenReason, Viewer, hidden_reason, is_unread
from notifier.flow.operations.event_status import state_note
from notifier.ports.all_ports import Ports, ReadPorts
from notifier.ports.inbox import InboxPosition

JsonObject = Mapping[str, object]

VISIBILITY_SENTENCES = {
    None: "The user sees it.",
    HiddenReason.RETRACTED: "It was retracted.",
    HiddenReason.EXPIRED: "It is older than 90 days.",
    HiddenReason.NOT_FOLLOWED: "The user doesn't follow the subject.",
    HiddenReason.MUTED: "The user has muted the subject.",
    HiddenReason.BEFORE_FOLLOW: "It opened before the subject became visible to the user.",
    HiddenReason.RESTRICTED: "Its author is protected, and the user doesn't follow the author.",
    HiddenReason.BLOCKED: "User blocks hide the account, or every author who mentioned it, from the user.",
    HiddenReason.VOLUME: "The user's preference for the subject, or for everything, excludes it.",
    HiddenReason.HIDDEN: "The user has hidden it.",
}


@click.command(epilog=example("notifier explain mention:nova#12 u7", "notifier explain digest:u7#20260105 u7"))
@click.argument("burst")
@click.argument("user", type=AccountParam())
@data_option
@json_option
def explain(burst: str, user: UserId, data: Path | None, as_json: bool) -> None:
    """Explain why a user sees a burst or not, and how it was delivered.

    For a digest, explain what it contains.
    """
    from notifier.cli.commands.explain.alert_and_digest_text import digest_explanation, print_digest
    from notifier.cli.opened_stores import open_stores

    key = BurstKey.parse(burst)
    is_digest = key.subject.kind is Kind.DIGEST
    settings = settings_for(data)
    with open_stores(settings) as stores:
        if is_digest:
            report = stores.run_query(digest_explanation(stores.ports.clock, stores.connect_reads, key, user))
        else:
            report = stores.run_query(
                explanation(stores.ports, stores.connect_reads, key, user, settings.push.pushed_tiers)
            )
    if as_json:
        print_json(report)
    else:
        (print_digest if is_digest else _print_explanation)(report)


async def explanation(
    ports: Ports,
    connect: Callable[[], ReadPorts],
    key: BurstKey,
    user: UserId,
    pushed_tiers: Collection[Tier] = DEFAULT_PUSHED_TIERS,
) -> dict[str, object]:
    """Return the object that `--json` prints. Raises NotFound for an unknown burst or user."""
    from notifier.cli.opened_stores import active_throttle_ids

    burst, reads = ports.bursts.read([key]).get(key), connect()
    if burst is None:
        raise NotFound(f"Burst {key} doesn't exist.")
    member = await reads.people.member(user)
    if member is None:
        raise NotFound(f"User {user} doesn't exist.")
    viewer, shard, now = await reads.people.viewer(user, member), shard_of(member), ports.clock.now()
    progress, snapshot = ports.ledger.read([key]).get(key), ports.audience_snapshots.read(key, [shard]).get(shard)
    throttle_ids = active_throttle_ids(ports)
    case = ExplainedCase(
        burst=burst,
        viewer=viewer,
        member=member,
        snapshot=snapshot,
        progress=progress,
        devices=ports.devices.by_member([member]).get(member, ()),
        batches={platform: _send_batches(ports, key, platform, shard) for platform in Platform},
        now=now,
        throttle_ids=throttle_ids,
        pushed_tiers=pushed_tiers,
    )
    return {
        "burst": str(key),
        "user": user,
        "member": member,
        **_visibility_json(burst, viewer, now),
        "digest": _containing_digest(burst, viewer, now),
        "opened_at": iso_time(burst.opened_at),
        "visible_from": _format_visible_from(viewer.follows.get(key.subject)),
        "snapshot": _snapshot_json(snapshot, member),
        "row": _row_json(await _row_of(reads, burst, member), member),
        "note": state_note(burst),
        "slices": _slice_json(progress, shard, now, throttle_ids),
        "alerts": [alert_json(alert) for alert in explained_alerts(case)],
        "marks": _mark_json(burst, viewer),
    }


def _format_visible_from(moment: datetime | None) -> str | None:
    return None if moment == NEVER else iso_time_or_none(moment)


def _send_batches(ports: Ports, key: BurstKey, platform: Platform, shard: int) -> list[SendBatch]:
    by_shard = ports.send_log.read(key, platform, [shard])
    return [batch for batches in by_shard.values() for batch in batches]


def _visibility_json(burst: Burst, viewer: Viewer, now: datetime) -> JsonObject:
    reason = hidden_reason(burst, viewer, now=now)
    return {
        "visible": reason is None,
        "rule": None if reason is None else str(reason),
        "explanation": VISIBILITY_SENTENCES[reason],
    }


def _containing_digest(burst: Burst, viewer: Viewer, now: datetime) -> JsonObject | None:
    """Return the digest, due or not, that lists the burst instead of a separate inbox item. None: no digest does."""
    if not is_in_digest(burst, viewer, now):
        return None
    schedule = DigestSchedule.of(viewer.account_preferences)
    day = schedule.day_of(burst.opened_at)
    return {"item": str(digest_key(viewer.user, day)), "due_at": iso_time(schedule.due_time(day))}


def _snapshot_json(snapshot: AudienceSnapshot | None, member: Member) -> JsonObject | None:
    """Describe the member in the audience snapshot.

    `tiers` has no dormant or suppressed members: the snapshot has only their counts. A dormant member may still be in
    `to_alert`.
    """
    if snapshot is None:
        return None
    tier = next((str(tier) for tier in TIERS if contains(snapshot.tiers[tier], member)), None)
    return {
        "shard": snapshot.shard,
        "tier": tier,
        "push": contains(snapshot.to_alert, member),
        "dormant_in_shard": snapshot.dormant_count,
        "suppressed_in_shard": dict(snapshot.suppressed_counts),
    }


async def _row_of(reads: ReadPorts, burst: Burst, member: Member) -> InboxRow | None:
    # `rows` begins after a position. Among rows of one time, the highest burst number comes first.
    position_before = InboxPosition(burst.opened_at, BurstKey(burst.key.subject, burst.key.seq + 1))
    rows = await reads.timeline.rows(member, [burst.key.subject], position_before, 1)
    return next((row for row in rows if row.burst == burst.key), None)


def _row_json(row: InboxRow | None, member: Member) -> JsonObject | None:
    return None if row is None else {"range": range_of(member), "people": len(row.offsets())}


def _row_sentence(row: object) -> str:
    if not isinstance(row, dict):
        return "none"
    return f"one for {row['people']:,} users of range {row['range']}"


def _slice_json(
    progress: BurstProgress | None, shard: int, now: datetime, throttle_ids: frozenset[str]
) -> list[JsonObject]:
    if progress is None:
        return []
    return [
        {
            "step": str(slice_.step),
            "tier": str(slice_.tier),
            "state": str(slice_state.state(now, throttle_ids=throttle_ids)),
            "at": iso_time_or_none(slice_state.final_entry.at) if slice_state.final_entry else None,
            "until": iso_time_or_none(slice_state.deferred_until) if slice_state.is_deferred(now) else None,
        }
        for slice_, slice_state in progress.slice_states.items()
        if shard in slice_.shards
    ]


def _mark_json(burst: Burst, viewer: Viewer) -> JsonObject:
    mark = viewer.marks.by_burst.get(burst.key)
    return {
        "mark": str(mark) if mark else None,
        "seen_at": iso_time_or_none(viewer.marks.seen_at),
        "unread": is_unread(burst, viewer),
    }


def _print_explanation(report: JsonObject) -> None:
    slices, alerts, marks = report["slices"], report["alerts"], report["marks"]
    assert isinstance(slices, list)
    assert isinstance(alerts, list)
    assert isinstance(marks, dict)
    steps = {Step.ROWS, *(f"push.{item['platform']}" for item in alerts)}
    print_sentence(f"{report['burst']} and {report['user']}: {report['explanation']}")
    click.echo()
    print_fields(
        {
            "opened": report["opened_at"],
            **_digest_row(report["digest"]),
            "visible from": report["visible_from"] or "never",
            "snapshot": snapshot_sentence(report["snapshot"]),
            "row": _row_sentence(report["row"]),
            "note": report["note"],
            **{_slice_name(item): _slice_text(item) for item in slices if item["step"] in steps},
            "alert": None if alerts else "none: the user has no device",
            **{f"alert by {item['platform']}": item["explanation"] for item in alerts},
            "mark": marks["mark"] or "none",
            "seen up to": marks["seen_at"] or "nothing",
        }
    )


def _digest_row(digest: object) -> JsonObject:
    return {"in digest": f"{digest['item']}, due at {digest['due_at']}"} if isinstance(digest, dict) else {}


def _slice_name(slice_: JsonObject) -> str:
    """Return a label like `p0 rows` or `p0 alerts by apns`."""
    return f"{slice_['tier']} " + str(slice_["step"]).replace("push.", "alerts by ")


def _slice_text(slice_: JsonObject) -> str:
    if slice_["at"]:
        return f"{slice_['state']} at {slice_['at']}"
    return f"{slice_['state']} until {slice_['until']}" if slice_["until"] else str(slice_["state"])


def snapshot_sentence(snapshot: object) -> str:
    if not isinstance(snapshot, dict):
        return "none yet, or expired"
    alerted = ", to be alerted" if snapshot["push"] else ""  # also possible for a dormant member
    if snapshot["tier"] is None:
        return f"in no tier{alerted}; shard {snapshot['shard']} has {snapshot['dormant_in_shard']:,} dormant members"
    return f"in {snapshot['tier']}{alerted}"

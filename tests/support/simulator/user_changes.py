"""How changes of users are sent, applied at once, and translated for the oracle.

To add a kind of change, add a function to one of the two tables. If the log carries it, add an update to the oracle
too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta

from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.upstream.graph_stream_records import FollowAction, FollowChange, GraphRecord
from notifier.domain.upstream.validation import BLOCKED_TYPE, FOLLOWED_TYPE, UNBLOCKED_TYPE, UNFOLLOWED_TYPE
from notifier.domain.users.account_preferences import AccountPreferencesChange, AccountPreferencesPatch
from notifier.domain.users.quiet_hours import QuietHours
from notifier.domain.users.subject_preferences import ALWAYS, NEVER, PreferenceChange, PreferencePatch, Volume
from notifier.domain.users.user_blocks import UserBlockChange
from notifier.flow.intake.gateway import IntakeStatus
from notifier.ports.user_directory_and_account_flags import Directory
from notifier.wiring.shared_parts import System
from tests.support.example_event_and_acceptance import accept
from tests.support.oracle import FOR_EVER, AccountUpdate, BlockUpdate, FollowUpdate, Person, PreferenceUpdate, Update
from tests.support.simulator.script import Changed


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeApi:
    """The API's entry points for changes.

    Each call may raise Unavailable or DiskFull; the change may have been accepted even then.
    """

    system: System
    patch_subject: Callable[[UserId, Subject, PreferencePatch], object]
    patch_account: Callable[[UserId, AccountPreferencesPatch], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChange:
    """A change that is sent until it is accepted; every attempt is the same."""

    changed: Changed
    sequence: int
    at: datetime

    @property
    def kind(self) -> str:
        return self.changed.what.partition(":")[0]

    def __call__(self, api: ChangeApi) -> None:
        LOGGED_CHANGES[self.kind](api, self)


def _send_follow(api: ChangeApi, change: PendingChange) -> None:
    request, kind = change.changed, FOLLOWED_TYPE if change.kind == "follow" else UNFOLLOWED_TYPE
    _send_pair(api, change, kind, {"follower": request.person, "followed": request.whom})


def _send_block(api: ChangeApi, change: PendingChange) -> None:
    request, kind = change.changed, BLOCKED_TYPE if change.kind == "block" else UNBLOCKED_TYPE
    _send_pair(api, change, kind, {"blocker": request.person, "blocked": request.whom})


def _send_pair(api: ChangeApi, change: PendingChange, kind: str, pair: Mapping[str, object]) -> None:
    data = {**pair, "sequence": change.sequence}
    event = {"specversion": "1.0", "type": kind, "source": "graph", "time": change.at.isoformat(), "data": data}
    receipt = accept(api.system, event | {"id": f"{change.changed}"})
    assert receipt.status is IntakeStatus.ACCEPTED, receipt


def _send_mute(api: ChangeApi, change: PendingChange) -> None:
    _send_patch(api, change, PreferencePatch(muted_until=NEVER))


def _send_unmute(api: ChangeApi, change: PendingChange) -> None:
    _send_patch(api, change, PreferencePatch(muted_until=ALWAYS))


def _send_volume(api: ChangeApi, change: PendingChange) -> None:
    _send_patch(api, change, PreferencePatch(volume=Volume(change.changed.what.partition(":")[2])))


def _send_patch(api: ChangeApi, change: PendingChange, patch: PreferencePatch) -> None:
    subject = Subject(Kind.MENTION, UserId(change.changed.whom))
    api.patch_subject(UserId(change.changed.person), subject, patch)


def _send_overall(api: ChangeApi, change: PendingChange) -> None:
    volume = Volume(change.changed.what.partition(":")[2])
    api.patch_account(UserId(change.changed.person), AccountPreferencesPatch(volume=volume))


def _send_alerts(api: ChangeApi, change: PendingChange) -> None:
    api.patch_account(UserId(change.changed.person), AccountPreferencesPatch(push=change.changed.what == "alerts:on"))


def _send_quiet_hours(api: ChangeApi, change: PendingChange) -> None:
    api.patch_account(
        UserId(change.changed.person), AccountPreferencesPatch(quiet=quiet_of(change.changed.what.partition(":")[2]))
    )


def quiet_of(hours: str) -> QuietHours:
    start, end = (time(int(hour)) for hour in hours.split("-"))
    return QuietHours(start=start, end=end)


LOGGED_CHANGES: Mapping[str, Callable[[ChangeApi, PendingChange], None]] = {
    "follow": _send_follow,
    "unfollow": _send_follow,
    "block": _send_block,
    "unblock": _send_block,
    "mute": _send_mute,
    "unmute": _send_unmute,
    "volume": _send_volume,
    "overall": _send_overall,
    "alerts": _send_alerts,
    "quiet": _send_quiet_hours,
}
"""Changes that go through the log if there is an indexer."""


def _vip(person: Person, _: Changed) -> Person:
    return replace(person, vip=not person.vip)


def _push(person: Person, _: Changed) -> Person:
    return replace(person, push=not person.push)


def _idle(person: Person, changed: Changed) -> Person:
    return replace(person, idle=timedelta(hours=int(changed.what.partition(":")[2])))


def _quiet_hours(person: Person, changed: Changed) -> Person:
    start, end = map(int, changed.what.partition(":")[2].split("-"))
    return replace(person, quiet=(start, end))


DIRECT_CHANGES: Mapping[str, Callable[[Person, Changed], Person]] = {
    "vip": _vip,
    "push": _push,
    "idle": _idle,
    "quiet": _quiet_hours,
}
"""Changes that apply at once: each returns the changed user."""


def graph_updates(record: GraphRecord, directory: Directory) -> Sequence[Update]:
    """Translate a log record into updates for the oracle, one for each user concerned."""
    if record.change is not None:
        return [_follow_update(record.change)]
    if record.account_preferences_change is not None:
        return [_account_update(record.account_preferences_change, directory)]
    if record.user_block_change is not None:
        return _block_updates(record.user_block_change)
    return [_preference_update(record.preference_change, directory)] if record.preference_change is not None else []


def _follow_update(change: FollowChange) -> FollowUpdate:
    is_unfollow = change.action is FollowAction.UNFOLLOW
    return FollowUpdate(
        person=change.follower, owner=change.followed, sequence=change.sequence, at=change.at, is_unfollow=is_unfollow
    )


def _block_updates(change: UserBlockChange) -> Sequence[BlockUpdate]:
    until = FOR_EVER if change.blocks else change.at
    pair = (change.blocker, change.blocked, False), (change.blocked, change.blocker, True)
    return [
        BlockUpdate(person=person, peer=peer, peer_blocks=peer_blocks, sequence=change.sequence, until=until)
        for person, peer, peer_blocks in pair
    ]


def _preference_update(change: PreferenceChange, directory: Directory) -> PreferenceUpdate:
    person = directory.users([change.member])[change.member]
    volume = None if change.volume is None else str(change.volume)
    return PreferenceUpdate(
        person=person, owner=change.subject.owner, at=change.at, volume=volume, since=change.visible_from
    )


def _account_update(change: AccountPreferencesChange, directory: Directory) -> AccountUpdate:
    return AccountUpdate(
        person=directory.users([change.member])[change.member],
        at=change.at,
        volume=None if change.volume is None else str(change.volume),
        since=change.visible_from,
        default_since=change.default_from,
        alerts=change.push,
        quiet=None if change.quiet is None else (change.quiet.start.hour, change.quiet.end.hour),
    )

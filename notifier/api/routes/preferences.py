"""`/v1/preferences`: a user's account preferences and subject preferences."""

from datetime import datetime, time, timedelta
from typing import TypedDict

import msgspec
from litestar import Response, get, patch
from litestar.params import FromPath, JSONBody

from notifier.api.answers import PRIVATE
from notifier.api.auth.guards import takes_json
from notifier.api.container import Call, Wired, written
from notifier.api.problems import described
from notifier.domain.bursts.moderation import MentionsAllowed
from notifier.domain.errors import BadPreference
from notifier.domain.ids import Kind, Subject
from notifier.domain.users.account_preferences import Overall, OverallWish
from notifier.domain.users.quiet_hours import NO_HOURS, Hours, known
from notifier.domain.users.subject_preferences import ALWAYS, NEVER, Volume, Want, Wish

# `PATCH /v1/preferences`: account-wide volume, push alerts, quiet hours and digest hour.

LARGEST_CHANGE = 4 * 1024
VOLUMES = (Volume.ALL, Volume.FIRST, Volume.DIGEST, Volume.OFF)
LONGEST_ZONE = 64
"""Characters; the longest IANA time zone name has 32."""
LAST_HOUR = 23


class HoursBody(msgspec.Struct, kw_only=True):
    """Quiet hours in local time, such as `22:00`. They span midnight if `to` is earlier than `from`."""

    start: str = msgspec.field(name="from")
    end: str = msgspec.field(name="to")


class EverythingBody(msgspec.Struct, kw_only=True):
    """Account preferences.

    `push` is true unless the user turned alerts off; `asked` is true if the user turned them on explicitly. `mentions`
    tells whose mentions of the user are delivered to the user's followers.
    """

    volume: str
    push: bool
    asked: bool
    """Whether the user has explicitly set `push` to true. Users without a setting may receive alerts too."""
    quiet_hours: HoursBody | None
    time_zone: str
    digest_hour: int
    mentions: str
    """Which mentions of the user are delivered to the user's followers."""


class Arrangement(msgspec.Struct, kw_only=True):
    """Changes to the account preferences. Omitted fields are unchanged."""

    volume: str | msgspec.UnsetType = msgspec.UNSET
    push: bool | msgspec.UnsetType = msgspec.UNSET
    quiet_hours: HoursBody | msgspec.UnsetType | None = msgspec.UNSET
    time_zone: str | msgspec.UnsetType = msgspec.UNSET
    digest_hour: int | msgspec.UnsetType = msgspec.UNSET
    mentions: str | msgspec.UnsetType = msgspec.UNSET


class Everything(TypedDict):
    volume: str
    push: bool
    asked: bool
    quiet_hours: HoursBody | None
    time_zone: str
    digest_hour: int
    mentions: str


@patch(
    "/",
    guards=[takes_json],
    request_max_body_size=LARGEST_CHANGE,
    responses=described(400, 401, 403, 404, 413, 415, 429, 503, 507),
)
async def arrange(request: Call, edge: Wired, data: JSONBody[Arrangement]) -> Response[EverythingBody]:
    """Change the account preferences and return the current ones."""
    overall = await edge.asking.arrange(request.user, _account_patch(data))
    edge.inbox.viewers.forget(request.user)
    edge.hub.changed(request.user)
    return Response(EverythingBody(**everything(overall)), headers=PRIVATE)


def everything(overall: Overall) -> Everything:
    hours = overall.quiet
    return Everything(
        volume=str(overall.volume),
        push=overall.alerts,
        asked=overall.push is True,
        quiet_hours=None if hours == NO_HOURS else HoursBody(start=f"{hours.start:%H:%M}", end=f"{hours.end:%H:%M}"),
        time_zone=overall.zone,
        digest_hour=overall.digest_hour,
        mentions=str(overall.mentions),
    )


def _account_patch(data: Arrangement) -> OverallWish:
    change = OverallWish(
        volume=None if data.volume is msgspec.UNSET else _account_volume(data.volume),
        push=None if data.push is msgspec.UNSET else data.push,
        quiet=None if data.quiet_hours is msgspec.UNSET else _hours(data.quiet_hours),
        zone=None if data.time_zone is msgspec.UNSET else _zone(data.time_zone),
        digest_hour=None if data.digest_hour is msgspec.UNSET else _hour(data.digest_hour),
        mentions=None if data.mentions is msgspec.UNSET else _mentions(data.mentions),
    )
    if change == OverallWish():
        raise BadPreference("Name a volume, push, quiet_hours, time_zone, digest_hour or mentions.")
    return change


def _account_volume(said: str) -> Volume:
    if said not in VOLUMES:
        raise BadPreference(f"The volume is {said[:40]!r}; there are {', '.join(VOLUMES)}.")
    return Volume(said)


def _hours(said: HoursBody | None) -> Hours:
    if said is None:
        return NO_HOURS
    hours = Hours(start=_time(said.start), end=_time(said.end))
    if hours.start == hours.end:
        raise BadPreference("quiet_hours begin and end at different times; null for none.")
    return hours


def _time(said: str) -> time:
    try:
        parsed = time.fromisoformat(said)
    except ValueError:
        parsed = None
    if parsed is None or f"{parsed:%H:%M}" != said:
        raise BadPreference("quiet_hours have a time from and to, each as 22:00.")
    return parsed


def _zone(said: str) -> str:
    if len(said) > LONGEST_ZONE or not known(said):
        raise BadPreference("time_zone is a name of the IANA, as Europe/Berlin.")
    return said


def _hour(said: int) -> int:
    if not 0 <= said <= LAST_HOUR:
        raise BadPreference("digest_hour is a whole hour from 0 to 23.")
    return said


def _mentions(said: str) -> MentionsAllowed:
    if said not in set(MentionsAllowed):
        raise BadPreference(f"mentions is {said!r}."[:80])
    return MentionsAllowed(said)


# `/v1/preferences/{subject}`: volume and mute of a single subject.

PREFIX = "/v1/preferences/"
LARGEST_BODY = 4 * 1024
LONGEST_MUTE = timedelta(days=366)
"""Longest temporary mute."""

FOREVER = "forever"
"""Value of `muted_until` for a mute without an end."""


class PreferenceBody(msgspec.Struct, kw_only=True):
    """Preference for one subject. `muted_until` is a time, `forever`, or null if the subject is not muted."""

    subject: str
    volume: str
    muted_until: str | None
    """A time, or `forever`; null if the subject is not muted."""


class PreferencesBody(EverythingBody, kw_only=True):
    """Account preferences, and the `preferences` of all subjects that are muted or have a volume of their own."""

    preferences: list[PreferenceBody]
    """Subjects that are muted or have a volume of their own."""


class PreferenceChangeBody(msgspec.Struct, kw_only=True):
    """Changes to a subject preference. Omitted fields are unchanged.

    `muted_until` is a future time, `forever`, or null to end the mute.
    """

    volume: str | msgspec.UnsetType = msgspec.UNSET
    muted_until: str | msgspec.UnsetType | None = msgspec.UNSET


@get("/", responses=described(401, 403, 404, 429, 503))
async def preferences(request: Call, edge: Wired) -> Response[PreferencesBody]:
    """Return the account preferences and the subject preferences, sorted by subject."""
    overall, wants = await edge.asking.overall(request.user), await edge.asking.wants(request.user)
    now = edge.clock.now()
    bodies = [_body(preference, now) for _, preference in sorted(wants.items())]
    shown = [body for body in bodies if body.muted_until is not None or body.volume != Volume.DEFAULT]
    return Response(PreferencesBody(**everything(overall), preferences=shown), headers=PRIVATE)


@patch(
    "/{subject:path}",
    guards=[takes_json],
    request_max_body_size=LARGEST_BODY,
    responses=described(400, 401, 403, 404, 413, 415, 429, 503, 507),
)
async def prefer(
    subject: FromPath[str], request: Call, edge: Wired, data: JSONBody[PreferenceChangeBody]
) -> Response[PreferenceBody]:
    """Change the volume of a subject, or mute or unmute it, and return the current preference."""
    target = Subject.parse(written(request, PREFIX, subject))
    if target.kind is not Kind.MENTION:
        raise BadPreference("Mentions of oneself are always told.")
    preference = await edge.asking.change(request.user, target, _wish(data, edge.clock.now()))
    edge.inbox.viewers.forget(request.user)
    edge.hub.changed(request.user)
    return Response(_body(preference, edge.clock.now()), headers=PRIVATE)


def _wish(data: PreferenceChangeBody, now: datetime) -> Wish:
    if data.volume is msgspec.UNSET and data.muted_until is msgspec.UNSET:
        raise BadPreference("Name a volume or muted_until.")
    return Wish(
        volume=None if data.volume is msgspec.UNSET else _volume(data.volume),
        muted_until=None if data.muted_until is msgspec.UNSET else _until(data.muted_until, now),
    )


def _volume(said: str) -> Volume:
    if said not in set(Volume):
        raise BadPreference(f"The volume is {said[:40]!r}; there are {', '.join(Volume)}.")
    return Volume(said)


def _until(said: str | None, now: datetime) -> datetime:
    if said is None:
        return ALWAYS
    if said == FOREVER:
        return NEVER
    try:
        until = msgspec.convert(said, datetime)
    except msgspec.ValidationError:
        raise BadPreference("muted_until is a time, forever or null.") from None
    if until.tzinfo is None:
        raise BadPreference("muted_until has no time zone.")
    if not now < until <= now + LONGEST_MUTE:
        raise BadPreference(f"muted_until is to come, within {LONGEST_MUTE.days} days; or it is forever.")
    return until


def _body(want: Want, now: datetime) -> PreferenceBody:
    return PreferenceBody(subject=str(want.subject), volume=str(want.volume), muted_until=_muted(want, now))


def _muted(want: Want, now: datetime) -> str | None:
    if want.visible_from == NEVER:
        return FOREVER
    return str(msgspec.to_builtins(want.visible_from)) if want.muted(now) else None

"""`/v1/preferences`: a user's account preferences and subject preferences."""

from datetime import datetime, time, timedelta
from typing import TypedDict

import msgspec
from litestar import Response, get, patch
from litestar.params import FromPath, JSONBody

from notifier.api.auth.guards import require_json
from notifier.api.container import UserRequest, WiredContainer, raw_path_part
from notifier.api.problems import problem_responses
from notifier.api.response_parts import PRIVATE_HEADERS
from notifier.domain.bursts.moderation import MentionsAllowed
from notifier.domain.errors import BadPreference
from notifier.domain.ids import Kind, Subject
from notifier.domain.users.account_preferences import AccountPreferences, AccountPreferencesPatch
from notifier.domain.users.quiet_hours import NO_QUIET_HOURS, QuietHours, is_known_zone
from notifier.domain.users.subject_preferences import ALWAYS, NEVER, PreferencePatch, SubjectPreference, Volume

# `PATCH /v1/preferences`: account preferences.

MAX_PREFERENCES_CHANGE_BYTES = 4 * 1024
ACCOUNT_VOLUMES = (Volume.ALL, Volume.FIRST, Volume.DIGEST, Volume.OFF)
MAX_ZONE_LENGTH = 64
"""Maximum characters of a time zone name. The longest IANA name has 32."""
LAST_HOUR = 23


class HoursBody(msgspec.Struct, kw_only=True):
    """Quiet hours in local time, such as `22:00`. They span midnight if `to` is earlier than `from`."""

    start: str = msgspec.field(name="from")
    end: str = msgspec.field(name="to")


class AccountPreferencesBody(msgspec.Struct, kw_only=True):
    """Account preferences.

    - `push` is true unless the user turned alerts off.
    - `asked` is true if the user turned alerts on explicitly.
    - `mentions` tells whose mentions of the user are delivered to the user's followers.
    """

    volume: str
    push: bool
    asked: bool
    quiet_hours: HoursBody | None
    time_zone: str
    digest_hour: int
    mentions: str


class AccountPreferencesChangeBody(msgspec.Struct, kw_only=True):
    """Changes to the account preferences. Omitted fields are unchanged."""

    volume: str | msgspec.UnsetType = msgspec.UNSET
    push: bool | msgspec.UnsetType = msgspec.UNSET
    quiet_hours: HoursBody | msgspec.UnsetType | None = msgspec.UNSET
    time_zone: str | msgspec.UnsetType = msgspec.UNSET
    digest_hour: int | msgspec.UnsetType = msgspec.UNSET
    mentions: str | msgspec.UnsetType = msgspec.UNSET


class AccountPreferencesFields(TypedDict):
    """The fields of `AccountPreferencesBody`, as keyword arguments of a body."""

    volume: str
    push: bool
    asked: bool
    quiet_hours: HoursBody | None
    time_zone: str
    digest_hour: int
    mentions: str


@patch(
    "/",
    guards=[require_json],
    request_max_body_size=MAX_PREFERENCES_CHANGE_BYTES,
    responses=problem_responses(400, 401, 403, 404, 413, 415, 429, 503, 507),
)
async def change_account_preferences(
    request: UserRequest, container: WiredContainer, data: JSONBody[AccountPreferencesChangeBody]
) -> Response[AccountPreferencesBody]:
    """Change the account preferences and return the current ones."""
    account_preferences = await container.preference_editor.change_account_preferences(
        request.user, _account_patch(data)
    )
    container.inbox.viewers.forget(request.user)
    container.hub.publish_marks(request.user)
    return Response(AccountPreferencesBody(**account_preferences_fields(account_preferences)), headers=PRIVATE_HEADERS)


def account_preferences_fields(account_preferences: AccountPreferences) -> AccountPreferencesFields:
    quiet_hours = account_preferences.quiet
    return AccountPreferencesFields(
        volume=str(account_preferences.volume),
        push=account_preferences.allows_alerts,
        asked=account_preferences.push is True,
        quiet_hours=None
        if quiet_hours == NO_QUIET_HOURS
        else HoursBody(start=f"{quiet_hours.start:%H:%M}", end=f"{quiet_hours.end:%H:%M}"),
        time_zone=account_preferences.zone,
        digest_hour=account_preferences.digest_hour,
        mentions=str(account_preferences.mentions),
    )


def _account_patch(data: AccountPreferencesChangeBody) -> AccountPreferencesPatch:
    change = AccountPreferencesPatch(
        volume=None if data.volume is msgspec.UNSET else _parse_account_volume(data.volume),
        push=None if data.push is msgspec.UNSET else data.push,
        quiet=None if data.quiet_hours is msgspec.UNSET else _parse_quiet_hours(data.quiet_hours),
        zone=None if data.time_zone is msgspec.UNSET else _checked_zone(data.time_zone),
        digest_hour=None if data.digest_hour is msgspec.UNSET else _checked_hour(data.digest_hour),
        mentions=None if data.mentions is msgspec.UNSET else _parse_mentions(data.mentions),
    )
    if change == AccountPreferencesPatch():
        raise BadPreference("Set at least one of volume, push, quiet_hours, time_zone, digest_hour and mentions.")
    return change


def _parse_account_volume(volume: str) -> Volume:
    if volume not in ACCOUNT_VOLUMES:
        raise BadPreference(f"Invalid volume: {volume[:40]!r}; use one of {', '.join(ACCOUNT_VOLUMES)}.")
    return Volume(volume)


def _parse_quiet_hours(body: HoursBody | None) -> QuietHours:
    if body is None:
        return NO_QUIET_HOURS
    hours = QuietHours(start=_parse_time(body.start), end=_parse_time(body.end))
    if hours.start == hours.end:
        raise BadPreference("quiet_hours must begin and end at different times; use null for none.")
    return hours


def _parse_time(text: str) -> time:
    try:
        parsed = time.fromisoformat(text)
    except ValueError:
        parsed = None
    if parsed is None or f"{parsed:%H:%M}" != text:
        raise BadPreference("quiet_hours needs from and to, each written like 22:00.")
    return parsed


def _checked_zone(zone: str) -> str:
    if len(zone) > MAX_ZONE_LENGTH or not is_known_zone(zone):
        raise BadPreference("time_zone must be an IANA time zone such as Europe/Berlin.")
    return zone


def _checked_hour(hour: int) -> int:
    if not 0 <= hour <= LAST_HOUR:
        raise BadPreference("digest_hour must be a whole number from 0 to 23.")
    return hour


def _parse_mentions(mentions: str) -> MentionsAllowed:
    if mentions not in set(MentionsAllowed):
        raise BadPreference(f"Invalid value of mentions: {mentions!r}."[:80])
    return MentionsAllowed(mentions)


# `/v1/preferences/{subject}`: volume and mute of a single subject.

PATH_PREFIX = "/v1/preferences/"
MAX_SUBJECT_CHANGE_BYTES = 4 * 1024
MAX_MUTE = timedelta(days=366)
"""Longest mute with an end."""

FOREVER = "forever"
"""Value of `muted_until` for a mute without an end."""


class PreferenceBody(msgspec.Struct, kw_only=True):
    """Preference for one subject. `muted_until` is a time, `forever`, or null if the subject is not muted."""

    subject: str
    volume: str
    muted_until: str | None


class PreferencesBody(AccountPreferencesBody, kw_only=True):
    """Account preferences, and in `preferences` all subjects that are muted or have a volume of their own."""

    preferences: list[PreferenceBody]


class PreferenceChangeBody(msgspec.Struct, kw_only=True):
    """Changes to a subject preference. Omitted fields are unchanged.

    `muted_until` is a future time, `forever`, or null to end the mute.
    """

    volume: str | msgspec.UnsetType = msgspec.UNSET
    muted_until: str | msgspec.UnsetType | None = msgspec.UNSET


@get("/", responses=problem_responses(401, 403, 404, 429, 503))
async def preferences(request: UserRequest, container: WiredContainer) -> Response[PreferencesBody]:
    """Return the account preferences and the subject preferences, sorted by subject."""
    account_preferences, subject_preferences = (
        await container.preference_editor.account_preferences(request.user),
        await container.preference_editor.subject_preferences(request.user),
    )
    now = container.clock.now()
    bodies = [_preference_body(preference, now) for _, preference in sorted(subject_preferences.items())]
    shown = [body for body in bodies if body.muted_until is not None or body.volume != Volume.DEFAULT]
    return Response(
        PreferencesBody(**account_preferences_fields(account_preferences), preferences=shown), headers=PRIVATE_HEADERS
    )


@patch(
    "/{subject:path}",
    guards=[require_json],
    request_max_body_size=MAX_SUBJECT_CHANGE_BYTES,
    responses=problem_responses(400, 401, 403, 404, 413, 415, 429, 503, 507),
)
async def change_subject_preference(
    subject: FromPath[str], request: UserRequest, container: WiredContainer, data: JSONBody[PreferenceChangeBody]
) -> Response[PreferenceBody]:
    """Change the volume of a subject, or mute or unmute it, and return the current preference."""
    target = Subject.parse(raw_path_part(request, PATH_PREFIX, subject))
    if target.kind is not Kind.MENTION:
        raise BadPreference("Mentions of the user have no preference of their own.")
    preference = await container.preference_editor.change(
        request.user, target, _preference_patch(data, container.clock.now())
    )
    container.inbox.viewers.forget(request.user)
    container.hub.publish_marks(request.user)
    return Response(_preference_body(preference, container.clock.now()), headers=PRIVATE_HEADERS)


def _preference_patch(data: PreferenceChangeBody, now: datetime) -> PreferencePatch:
    if data.volume is msgspec.UNSET and data.muted_until is msgspec.UNSET:
        raise BadPreference("Set volume or muted_until.")
    return PreferencePatch(
        volume=None if data.volume is msgspec.UNSET else _parse_volume(data.volume),
        muted_until=None if data.muted_until is msgspec.UNSET else _parse_muted_until(data.muted_until, now),
    )


def _parse_volume(volume: str) -> Volume:
    if volume not in set(Volume):
        raise BadPreference(f"Invalid volume: {volume[:40]!r}; use one of {', '.join(Volume)}.")
    return Volume(volume)


def _parse_muted_until(muted_until: str | None, now: datetime) -> datetime:
    if muted_until is None:
        return ALWAYS
    if muted_until == FOREVER:
        return NEVER
    try:
        until = msgspec.convert(muted_until, datetime)
    except msgspec.ValidationError:
        raise BadPreference("muted_until must be a time, forever or null.") from None
    if until.tzinfo is None:
        raise BadPreference("muted_until has no time zone.")
    if not now < until <= now + MAX_MUTE:
        raise BadPreference(f"muted_until must be in the future, at most {MAX_MUTE.days} days ahead, or forever.")
    return until


def _preference_body(preference: SubjectPreference, now: datetime) -> PreferenceBody:
    return PreferenceBody(
        subject=str(preference.subject), volume=str(preference.volume), muted_until=_muted_until_text(preference, now)
    )


def _muted_until_text(preference: SubjectPreference, now: datetime) -> str | None:
    if preference.visible_from == NEVER:
        return FOREVER
    return str(msgspec.to_builtins(preference.visible_from)) if preference.is_muted(now) else None

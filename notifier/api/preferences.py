"""`/v1/preferences/{subject}`, and all that stands: how much of an account a person wants, and of everything."""

from datetime import datetime, timedelta

import msgspec
from litestar import Response, get, patch
from litestar.params import FromPath, JSONBody

from notifier.api.arranging import EverythingBody, everything
from notifier.api.edge import Call, Wired, written
from notifier.api.guards import takes_json
from notifier.api.problems import described
from notifier.domain.errors import BadPreference
from notifier.domain.ids import Kind, Subject
from notifier.domain.users.subject_preferences import ALWAYS, NEVER, Volume, Want, Wish

PREFIX = "/v1/preferences/"
PRIVATE = {"Cache-Control": "private, no-store"}
LARGEST_BODY = 4 * 1024
LONGEST_MUTE = timedelta(days=366)
"""Of those that end by themselves."""

FOREVER = "forever"
"""Instead of a time: until the person says otherwise."""


class PreferenceBody(msgspec.Struct, kw_only=True):
    subject: str
    volume: str
    muted_until: str | None
    """A time, or `forever`; null where it isn't muted."""


class PreferencesBody(EverythingBody, kw_only=True):
    preferences: list[PreferenceBody]
    """Of the subjects that are muted, or have a volume of their own."""


class Change(msgspec.Struct, kw_only=True):
    """What isn't named stays as it is."""

    volume: str | msgspec.UnsetType = msgspec.UNSET
    muted_until: str | msgspec.UnsetType | None = msgspec.UNSET


@get("/", responses=described(401, 403, 404, 429, 503))
async def preferences(request: Call, edge: Wired) -> Response[PreferencesBody]:
    """What the person said of everything, and of whom, by subject."""
    overall, wants = await edge.asking.overall(request.user), await edge.asking.wants(request.user)
    now = edge.clock.now()
    said = [_body(want, now) for _, want in sorted(wants.items())]
    some = [body for body in said if body.muted_until is not None or body.volume != Volume.DEFAULT]
    return Response(PreferencesBody(**everything(overall), preferences=some), headers=PRIVATE)


@patch(
    "/{subject:path}",
    guards=[takes_json],
    request_max_body_size=LARGEST_BODY,
    responses=described(400, 401, 403, 404, 413, 415, 429, 503, 507),
)
async def prefer(
    subject: FromPath[str], request: Call, edge: Wired, data: JSONBody[Change]
) -> Response[PreferenceBody]:
    """Changes the volume of a subject, or mutes it, and says what stands."""
    named = Subject.parse(written(request, PREFIX, subject))
    if named.kind is not Kind.MENTION:
        raise BadPreference("Mentions of oneself are always told.")
    want = await edge.asking.change(request.user, named, _wish(data, edge.clock.now()))
    edge.inbox.viewers.forget(request.user)
    edge.hub.changed(request.user)
    return Response(_body(want, edge.clock.now()), headers=PRIVATE)


def _wish(data: Change, now: datetime) -> Wish:
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

"""`PATCH /v1/preferences`: how much a person wants of everything, and when the phone is to be silent."""

from datetime import time
from typing import TypedDict

import msgspec
from litestar import Response, patch
from litestar.params import JSONBody

from notifier.api.edge import Call, Wired
from notifier.api.guards import takes_json
from notifier.api.problems import described
from notifier.domain.bursts.moderation import MentionsAllowed
from notifier.domain.errors import BadPreference
from notifier.domain.users.account_preferences import Overall, OverallWish
from notifier.domain.users.quiet_hours import NO_HOURS, Hours, known
from notifier.domain.users.subject_preferences import Volume

LARGEST_BODY = 4 * 1024
VOLUMES = (Volume.ALL, Volume.FIRST, Volume.DIGEST, Volume.OFF)
PRIVATE = {"Cache-Control": "private, no-store"}
LONGEST_ZONE = 64
"""Letters; the longest name of the IANA has 32."""
LAST_HOUR = 23


class HoursBody(msgspec.Struct, kw_only=True):
    """Local times, `22:00`; over midnight where the second comes first."""

    start: str = msgspec.field(name="from")
    end: str = msgspec.field(name="to")


class EverythingBody(msgspec.Struct, kw_only=True):
    volume: str
    push: bool
    asked: bool
    """Whether the person has said `push: true`; who said nothing of it may be alerted, too."""
    quiet_hours: HoursBody | None
    time_zone: str
    digest_hour: int
    mentions: str
    """Whose mentions of the person the person's followers are told of."""


class Arrangement(msgspec.Struct, kw_only=True):
    """What isn't named stays as it is."""

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
    request_max_body_size=LARGEST_BODY,
    responses=described(400, 401, 403, 404, 413, 415, 429, 503, 507),
)
async def arrange(request: Call, edge: Wired, data: JSONBody[Arrangement]) -> Response[EverythingBody]:
    """Changes what the person says of everything, and says what stands."""
    overall = await edge.asking.arrange(request.user, _wish(data))
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


def _wish(data: Arrangement) -> OverallWish:
    wish = OverallWish(
        volume=None if data.volume is msgspec.UNSET else _volume(data.volume),
        push=None if data.push is msgspec.UNSET else data.push,
        quiet=None if data.quiet_hours is msgspec.UNSET else _hours(data.quiet_hours),
        zone=None if data.time_zone is msgspec.UNSET else _zone(data.time_zone),
        digest_hour=None if data.digest_hour is msgspec.UNSET else _hour(data.digest_hour),
        mentions=None if data.mentions is msgspec.UNSET else _mentions(data.mentions),
    )
    if wish == OverallWish():
        raise BadPreference("Name a volume, push, quiet_hours, time_zone, digest_hour or mentions.")
    return wish


def _volume(said: str) -> Volume:
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
        found = time.fromisoformat(said)
    except ValueError:
        found = None
    if found is None or f"{found:%H:%M}" != said:
        raise BadPreference("quiet_hours have a time from and to, each as 22:00.")
    return found


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

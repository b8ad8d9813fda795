"""A preview as it is told: by `POST /v1/events?dry_run=true`, and by the verb `preview`."""

from collections.abc import Sequence

import msgspec

from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.forecast import TierForecast
from notifier.flow.operations.event_status import note_of
from notifier.flow.operations.preview import Previewed

JOINS = "It joins a burst that is open: its text grows, and nobody is told anew."
NOBODY = "Its followers are told nothing."


class ReachBody(msgspec.Struct, kw_only=True):
    people: int
    phones: int
    rows: int
    bytes: int
    eta_seconds: float | None
    held_by: str | None
    """The throttle."""


class PreviewBody(msgspec.Struct, kw_only=True):
    account: str
    refusal: str | None
    burst: str | None
    """The one that it would open, or join."""
    count: int
    lane: str
    verdict: str
    followers: int
    tiers: dict[str, ReachBody]
    """Empty where nothing would be fanned out."""
    dormant: int
    dormant_phones: int
    """Of those, whose phones would ring, because they asked for alerts."""
    suppressed: dict[str, int]
    first_of_day: bool
    note: str | None
    """Why it would not be fanned out."""


class PreviewsBody(msgspec.Struct, kw_only=True):
    accounts: list[PreviewBody]
    """In the order in which they are named."""


def previews(found: Sequence[Previewed]) -> PreviewsBody:
    return PreviewsBody(accounts=[_account(one) for one in found])


def _account(found: Previewed) -> PreviewBody:
    burst, tiers = found.burst, found.tiers or {}
    return PreviewBody(
        account=found.account,
        refusal=found.refusal,
        burst=None if burst is None else str(burst.key),
        count=0 if burst is None else burst.count,
        lane=found.lane,
        verdict=found.verdict,
        followers=found.followers,
        tiers={str(tier): _reach(reach) for tier, reach in tiers.items()},
        dormant=found.dormant,
        dormant_phones=found.dormant_phones,
        suppressed=dict(found.suppressed or {}),
        first_of_day=burst is not None and burst.first_of_day,
        note=_note(found, burst),
    )


def _note(found: Previewed, burst: Burst | None) -> str | None:
    if burst is None:
        return NOBODY
    if found.joins:
        return JOINS
    return note_of(burst)


def _reach(reach: TierForecast) -> ReachBody:
    return ReachBody(
        people=reach.people,
        phones=reach.phones,
        rows=reach.rows,
        bytes=reach.bytes,
        eta_seconds=reach.seconds,
        held_by=reach.held_by,
    )

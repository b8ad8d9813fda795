"""JSON body of a preview, for `POST /v1/events?dry_run=true` and `notifier preview`."""

from collections.abc import Sequence

import msgspec

from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.delivery_cost_forecast import TierForecast
from notifier.flow.operations.event_status import state_note
from notifier.flow.operations.preview import AccountPreview

JOINS_NOTE = "The mention joins an open burst: its text grows, and no follower is notified again."
NO_FANOUT_NOTE = "The followers are not notified."


class TierForecastBody(msgspec.Struct, kw_only=True):
    """Forecast for one tier.

    - `eta_seconds` is the time until the last row is written, or null if no estimate is possible.
    - `held_by` is the id of the throttle that limits or pauses the tier, if there is one.
    """

    people: int
    alerted: int
    rows: int
    bytes: int
    eta_seconds: float | None
    held_by: str | None


class PreviewBody(msgspec.Struct, kw_only=True):
    """Forecast for one mentioned account.

    - `refusal` is the reason why the followers would not be notified.
    - `burst` is the burst that the mention would open or join.
    - `tiers` is empty if nothing would be fanned out; `refusal` or `note` then explains why.
    - `dormant` counts dormant followers, and `dormant_alerted` those who would get an alert because they asked for it.
    """

    account: str
    refusal: str | None
    burst: str | None
    count: int
    lane: str
    verdict: str
    followers: int
    tiers: dict[str, TierForecastBody]
    dormant: int
    dormant_alerted: int
    suppressed: dict[str, int]
    first_of_day: bool
    note: str | None


class PreviewsBody(msgspec.Struct, kw_only=True):
    """Forecast of a mention event: one entry per mentioned account, in the order of the event."""

    accounts: list[PreviewBody]


def previews(forecasts: Sequence[AccountPreview]) -> PreviewsBody:
    return PreviewsBody(accounts=[_preview_body(forecast) for forecast in forecasts])


def _preview_body(forecast: AccountPreview) -> PreviewBody:
    burst, tiers = forecast.burst, forecast.tiers or {}
    return PreviewBody(
        account=forecast.account,
        refusal=forecast.refusal,
        burst=None if burst is None else str(burst.key),
        count=0 if burst is None else burst.count,
        lane=forecast.lane,
        verdict=forecast.verdict,
        followers=forecast.followers,
        tiers={str(tier): _tier_forecast_body(tier_forecast) for tier, tier_forecast in tiers.items()},
        dormant=forecast.dormant,
        dormant_alerted=forecast.dormant_alerted,
        suppressed=dict(forecast.suppressed or {}),
        first_of_day=burst is not None and burst.first_of_day,
        note=_note(forecast, burst),
    )


def _note(forecast: AccountPreview, burst: Burst | None) -> str | None:
    if burst is None:
        return NO_FANOUT_NOTE
    if forecast.joins:
        return JOINS_NOTE
    return state_note(burst)


def _tier_forecast_body(tier_forecast: TierForecast) -> TierForecastBody:
    return TierForecastBody(
        people=tier_forecast.people,
        alerted=tier_forecast.alert_count,
        rows=tier_forecast.row_count,
        bytes=tier_forecast.byte_count,
        eta_seconds=tier_forecast.seconds,
        held_by=tier_forecast.held_by,
    )

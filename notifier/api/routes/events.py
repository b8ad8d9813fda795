"""`/v1/events`: accept, preview and track events of other services."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from litestar import Request, Response, get, post
from litestar.datastructures import State
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, FromQuery

from notifier.api.auth.guards import media_type, require_uncompressed
from notifier.api.auth.service_and_installation_keys import Caller, Scope
from notifier.api.container import ApiContainer, WiredContainer, raw_path_part
from notifier.api.problems import Problem, problem_body, problem_responses
from notifier.api.response_parts import NO_STORE_HEADERS
from notifier.api.schemas.openapi import EventsOperation
from notifier.api.schemas.preview import PreviewsBody, previews
from notifier.codec import ReceivedEvent, read_batch, read_event
from notifier.codec.cloudevents import BATCH_CONTENT_TYPE, MAX_EVENT_BYTES, SINGLE_CONTENT_TYPE
from notifier.domain.audience.activity import Sighting
from notifier.domain.bursts.events_and_mentions import Event
from notifier.domain.errors import BadEvent, NotifierError, NotSupported, Refused, TooLarge, WrongType
from notifier.domain.upstream.validation import (
    BLOCKED_TYPE,
    CHANGED_TYPE,
    DELETED_TYPE,
    EDITED_TYPE,
    ERASED_TYPE,
    FOLLOW_APPROVED_TYPE,
    FOLLOWED_TYPE,
    MENTIONED_TYPE,
    PROTECTED_TYPE,
    SEEN_TYPE,
    UNBLOCKED_TYPE,
    UNFOLLOWED_TYPE,
)
from notifier.flow.intake.gateway import IntakeReceipt, IntakeStatus
from notifier.flow.operations.event_status import AccountStatus, BurstStatus, EventReport, TierStatus, state_note

PATH_PREFIX = "/v1/events/"

MAX_BATCH_BYTES = 4 * 1024 * 1024
NO_DRY_RUN, DRY_RUN = "false", "true"
"""Values of the parameter `dry_run`."""
MAX_PREVIEWED_ACCOUNTS = 3
"""Maximum accounts per dry run. An account with 200 million followers takes about ten seconds of one core."""

MAX_BODY_BYTES = {
    SINGLE_CONTENT_TYPE: MAX_EVENT_BYTES,
    "application/json": MAX_EVENT_BYTES,
    BATCH_CONTENT_TYPE: MAX_BATCH_BYTES,
}
REQUIRED_SCOPE: Mapping[str, Scope] = {
    MENTIONED_TYPE: Scope.EVENTS,
    DELETED_TYPE: Scope.EVENTS,
    EDITED_TYPE: Scope.EVENTS,
    FOLLOWED_TYPE: Scope.FOLLOWS,
    UNFOLLOWED_TYPE: Scope.FOLLOWS,
    FOLLOW_APPROVED_TYPE: Scope.FOLLOWS,
    BLOCKED_TYPE: Scope.FOLLOWS,
    UNBLOCKED_TYPE: Scope.FOLLOWS,
    CHANGED_TYPE: Scope.ACCOUNTS,
    PROTECTED_TYPE: Scope.ACCOUNTS,
    ERASED_TYPE: Scope.ACCOUNTS,
    SEEN_TYPE: Scope.ACTIVITY,
}
SCOPES = tuple(dict.fromkeys(REQUIRED_SCOPE.values()))
"""Scopes that allow at least one event type."""

ServiceRequest = Request[Caller, Any, State]


class EventResultBody(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Result of one event: `status` is accepted, duplicate or refused. `problem` tells why it was refused."""

    status: str
    id: str | None = None
    source: str | None = None
    problem: Problem | None = None


class BatchResultBody(msgspec.Struct, kw_only=True):
    """Results of a batch, in the order of its events."""

    results: list[EventResultBody]


class SliceCount(msgspec.Struct, kw_only=True):
    """Slices of a tier: how many there are, and how many have ended."""

    total: int
    ended: int


class EventTierBody(msgspec.Struct, kw_only=True):
    """Fan-out progress of one tier. `people` counts the users of slices that are done or pulled.

    `eta_seconds` is null while no estimate is possible.
    """

    state: str
    slices: SliceCount
    people: int
    eta_seconds: float | None


class BurstBody(msgspec.Struct, kw_only=True):
    """A burst that the event opened or joined, with its fan-out progress by tier.

    `note` says if the burst was retracted, became restricted after its opening, or is pull-only.
    """

    burst: str
    opened_at: datetime
    count: int
    lane: str
    tiers: dict[str, EventTierBody]
    note: str | None


class EventAccountBody(msgspec.Struct, kw_only=True):
    """Outcome for one mentioned account. `refusal` is the reason why its followers do not get the mention."""

    source: str
    account: str
    refusal: str | None
    bursts: list[BurstBody]


class EventStatusBody(msgspec.Struct, kw_only=True):
    """Status of an event.

    `status` is `accepted` while the event is durable but not yet sequenced. It is `sequenced` once the outcome for at
    least one account is known; the other accounts follow.
    """

    id: str
    status: str
    accounts: list[EventAccountBody]


@post(
    "/",
    status_code=202,
    guards=[require_uncompressed],
    operation_class=EventsOperation,
    request_max_body_size=MAX_BATCH_BYTES,
    responses=problem_responses(400, 401, 403, 409, 413, 415, 429, 503, 507)
    | {200: ResponseSpec(PreviewsBody, description="Forecast of a dry run.", generate_examples=False)},
)
async def accept(
    request: ServiceRequest, container: WiredContainer, dry_run: FromQuery[str] = NO_DRY_RUN
) -> Response[EventResultBody | BatchResultBody | PreviewsBody]:
    """Accept one event or a batch of events.

    Status 202 means that the events are durable: they survive a crash of any process. In a batch, some events may have
    been refused: then their `status` is `refused`.

    With `dry_run=true` the response has status 200 and describes what a single mention event would do now. Nothing is
    written, and no user is notified.
    """
    content_type = media_type(request)
    if content_type not in MAX_BODY_BYTES:
        raise WrongType(f"The content type must be {', '.join(MAX_BODY_BYTES)}.")
    received = await _decode(
        container, await _read_body(request, MAX_BODY_BYTES[content_type]), batch=content_type == BATCH_CONTENT_TYPE
    )
    _require_scopes(request.user, received)
    if (dry_run_values := _dry_run_values(request)) != [NO_DRY_RUN]:
        return Response(
            await _preview(container, received, content_type, dry_run_values), status_code=200, headers=NO_STORE_HEADERS
        )
    if content_type == BATCH_CONTENT_TYPE:
        result: EventResultBody | BatchResultBody = _batch_result(
            await container.intake.accept_batch([received_event.event for received_event in received])
        )
    else:
        result = _single_result(await container.intake.accept(received[0].event))
    _warm_up(container, received)
    return Response(result, headers=NO_STORE_HEADERS)


@get("/{id:path}", responses=problem_responses(400, 401, 403, 404, 429, 503))
async def event_status(
    id: FromPath[str], request: ServiceRequest, container: WiredContainer, source: FromQuery[str | None] = None
) -> Response[EventStatusBody]:
    """Return the status of an event: the refusal, bursts and fan-out progress of each mentioned account.

    Without `source` the response covers every event with this id.
    """
    request.user.require(Scope.EVENTS)
    report = await container.in_thread(container.event_status.look_up, source, raw_path_part(request, PATH_PREFIX, id))
    return Response(_event_status_body(report), headers=NO_STORE_HEADERS)


async def _decode(container: ApiContainer, body: bytes, *, batch: bool) -> Sequence[ReceivedEvent]:
    """Decode and validate the body. Raises BadEvent and TooLarge if a batch is invalid as a whole."""
    now = container.clock.now()
    # Decoding an event takes microseconds. A batch may have a thousand events, so it is decoded in a thread.
    return await container.in_thread(read_batch, body, now) if batch else [read_event(body, now)]


def _warm_up(container: ApiContainer, received: Sequence[ReceivedEvent]) -> None:
    """Warm up the inboxes of users who were active elsewhere, because they may open their inbox soon."""
    for received_event in received:
        if isinstance(received_event.event, Sighting):
            container.warm_up.add(received_event.event.user)


def _dry_run_values(request: ServiceRequest) -> list[str]:
    """Return all values of `dry_run`, in case the query has several. The framework would return only the last one."""
    return [str(value) for value in request.query_params.getall("dry_run", [NO_DRY_RUN])]


def _require_scopes(caller: Caller, received: Sequence[ReceivedEvent]) -> None:
    """Raise Forbidden if the caller lacks the scope of one of the events: then the whole batch is rejected.

    An event that cannot be decoded has no type, and is refused later.
    """
    if caller.scopes.issuperset(SCOPES):
        return
    for event_type in dict.fromkeys(
        received_event.type for received_event in received if received_event.type is not None
    ):
        caller.require(REQUIRED_SCOPE[event_type])


async def _preview(
    container: ApiContainer, received: Sequence[ReceivedEvent], content_type: str, dry_run_values: Sequence[str]
) -> PreviewsBody:
    """Return the preview of a single mention event. Raises Refused, NotSupported, Unavailable, or the event's error.

    Anything but a single `true` or `false` is rejected, because the client may expect that nothing is sent.
    """
    if dry_run_values != [DRY_RUN]:
        raise Refused("dry_run must be true or false.")
    if content_type == BATCH_CONTENT_TYPE:
        raise NotSupported("A dry run takes one event, not a batch.")
    event = received[0].event
    if isinstance(event, NotifierError):
        raise event
    if not isinstance(event, Event):
        raise NotSupported("A dry run takes mention events only.")
    if len(event.mentioned) > MAX_PREVIEWED_ACCOUNTS:
        raise NotSupported(f"A dry run takes at most {MAX_PREVIEWED_ACCOUNTS} accounts.")
    return previews(await container.in_thread(container.preview.estimate, event))


async def _read_body(request: ServiceRequest, max_bytes: int) -> bytes:
    """Read the body. Raises TooLarge as soon as the limit is exceeded, without reading the rest."""
    if (request.content_length or 0) > max_bytes:
        raise TooLarge(f"The limit is {max_bytes} bytes.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise TooLarge(f"The limit is {max_bytes} bytes.")
    return bytes(body)


def _single_result(receipt: IntakeReceipt) -> EventResultBody:
    if receipt.error is not None:
        raise receipt.error
    return _event_result_body(receipt)


def _batch_result(receipts: Sequence[IntakeReceipt]) -> BatchResultBody:
    """Return the results of a batch. If every event was refused, raise the error of the first."""
    if not receipts:
        raise BadEvent("The batch has no events.")
    if receipts[0].error and all(receipt.status is IntakeStatus.REFUSED for receipt in receipts):
        raise receipts[0].error
    return BatchResultBody(results=[_event_result_body(receipt) for receipt in receipts])


def _event_result_body(receipt: IntakeReceipt) -> EventResultBody:
    return EventResultBody(
        status=receipt.status,
        id=receipt.event.id if receipt.event else None,
        source=receipt.event.source if receipt.event else None,
        problem=problem_body(receipt.error) if receipt.error else None,
    )


def _event_status_body(report: EventReport) -> EventStatusBody:
    return EventStatusBody(
        id=report.id, status=report.status, accounts=[_account_body(account) for account in report.accounts]
    )


def _account_body(outcome: AccountStatus) -> EventAccountBody:
    bursts = [_burst_body(burst) for burst in outcome.bursts]
    return EventAccountBody(source=outcome.source, account=outcome.account, refusal=outcome.refusal, bursts=bursts)


def _burst_body(status: BurstStatus) -> BurstBody:
    return BurstBody(
        burst=str(status.burst.key),
        opened_at=status.burst.opened_at,
        count=status.burst.count,
        lane=status.burst.lane,
        tiers={str(progress.tier): _tier_body(progress) for progress in status.tiers},
        note=state_note(status.burst),
    )


def _tier_body(status: TierStatus) -> EventTierBody:
    return EventTierBody(
        state=status.state,
        slices=SliceCount(total=status.slice_count, ended=status.ended_count),
        people=status.people,
        eta_seconds=status.eta_seconds,
    )

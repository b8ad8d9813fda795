"""`/v1/events`: where the tweet service leaves its events and asks what became of them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from litestar import Request, Response, get, post
from litestar.datastructures import State
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, FromQuery

from notifier.api.answers import NO_STORE
from notifier.api.auth.guards import media_type, takes_plain
from notifier.api.auth.scopes import Caller, Scope
from notifier.api.container import Edge, Wired, written
from notifier.api.problems import Problem, described, problem
from notifier.api.schemas.openapi import EventsOperation
from notifier.api.schemas.preview import PreviewsBody, previews
from notifier.codec import ReceivedEvent, read_batch, read_event
from notifier.codec.cloudevents import BATCH, LARGEST_EVENT, ONE
from notifier.domain.audience.activity import Sighting
from notifier.domain.bursts.mention import Event
from notifier.domain.errors import BadEvent, NotifierError, NotSupported, Refused, TooLarge, WrongType
from notifier.domain.upstream.validation import (
    APPROVED_TYPE,
    BLOCKED_TYPE,
    CHANGED_TYPE,
    DELETED_TYPE,
    EDITED_TYPE,
    ERASED_TYPE,
    EVENT_TYPE,
    FOLLOWED_TYPE,
    PROTECTED_TYPE,
    SEEN_TYPE,
    UNBLOCKED_TYPE,
    UNFOLLOWED_TYPE,
)
from notifier.flow.intake.gateway import IntakeStatus, Receipt
from notifier.flow.operations.event_status import AccountFate, BurstFate, EventReport, TierFate, note_of

PREFIX = "/v1/events/"

LARGEST_BATCH_BODY = 4 * 1024 * 1024
DELIVERS, PREVIEWS = "false", "true"
"""Of the parameter `dry_run`."""
MOST_PREVIEWED = 3
"""Accounts: of 200 million followers each some ten seconds of a core."""

LIMITS = {ONE: LARGEST_EVENT, "application/json": LARGEST_EVENT, BATCH: LARGEST_BATCH_BODY}
"""Bytes, by content type."""
NEEDED: Mapping[str, Scope] = {
    EVENT_TYPE: Scope.EVENTS,
    DELETED_TYPE: Scope.EVENTS,
    EDITED_TYPE: Scope.EVENTS,
    FOLLOWED_TYPE: Scope.FOLLOWS,
    UNFOLLOWED_TYPE: Scope.FOLLOWS,
    APPROVED_TYPE: Scope.FOLLOWS,
    BLOCKED_TYPE: Scope.FOLLOWS,
    UNBLOCKED_TYPE: Scope.FOLLOWS,
    CHANGED_TYPE: Scope.ACCOUNTS,
    PROTECTED_TYPE: Scope.ACCOUNTS,
    ERASED_TYPE: Scope.ACCOUNTS,
    SEEN_TYPE: Scope.ACTIVITY,
}
"""By the type of an event."""
SCOPES = tuple(dict.fromkeys(NEEDED.values()))
"""Of whoever may come at all."""

Sent = Request[Caller, Any, State]


class AcceptedEventBody(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One event's answer; in a batch a refused one brings its problem."""

    status: str
    id: str | None = None
    source: str | None = None
    problem: Problem | None = None


class AcceptedBatch(msgspec.Struct, kw_only=True):
    results: list[AcceptedEventBody]
    """In the order of the events."""


class SliceCount(msgspec.Struct, kw_only=True):
    total: int
    ended: int


class EventTierBody(msgspec.Struct, kw_only=True):
    state: str
    slices: SliceCount
    people: int
    eta_seconds: float | None


class BurstBody(msgspec.Struct, kw_only=True):
    burst: str
    opened_at: datetime
    count: int
    lane: str
    tiers: dict[str, EventTierBody]
    note: str | None
    """Why it was not fanned out."""


class EventAccountBody(msgspec.Struct, kw_only=True):
    source: str
    account: str
    refusal: str | None
    bursts: list[BurstBody]


class FateBody(msgspec.Struct, kw_only=True):
    id: str
    status: str
    accounts: list[EventAccountBody]


@post(
    "/",
    status_code=202,
    guards=[takes_plain],
    operation_class=EventsOperation,
    request_max_body_size=LARGEST_BATCH_BODY,
    responses=described(400, 401, 403, 409, 413, 415, 429, 503, 507)
    | {200: ResponseSpec(PreviewsBody, description="What it would do, of a dry run.", generate_examples=False)},
)
async def accept(
    request: Sent, edge: Wired, dry_run: FromQuery[str] = DELIVERS
) -> Response[AcceptedEventBody | AcceptedBatch | PreviewsBody]:
    """Takes one event, or a batch. 202 means that it survives a crash of any process.

    With `dry_run=true` it is 200, of one event what it would do now; nothing is written, and nobody is told.
    """
    kind = media_type(request)
    if kind not in LIMITS:
        raise WrongType(f"It takes {', '.join(LIMITS)}.")
    received = await _received(edge, await _body(request, LIMITS[kind]), batch=kind == BATCH)
    _require(request.user, received)
    if (asked := _asked(request)) != [DELIVERS]:
        return Response(await _previewed(edge, received, kind, asked), status_code=200, headers=NO_STORE)
    if kind == BATCH:
        answer: AcceptedEventBody | AcceptedBatch = _batch(
            await edge.intake.accept_batch([each.event for each in received])
        )
    else:
        answer = _one(await edge.intake.accept(received[0].event))
    _warm_up(edge, received)
    return Response(answer, headers=NO_STORE)


@get("/{id:path}", responses=described(400, 401, 403, 404, 429, 503))
async def fate(
    id: FromPath[str], request: Sent, edge: Wired, source: FromQuery[str | None] = None
) -> Response[FateBody]:
    """What became of an event: each account's refusal or bursts, and how far their fan-out is."""
    request.user.require(Scope.EVENTS)
    found = await edge.in_thread(edge.fates.look_up, source, written(request, PREFIX, id))
    return Response(_fate(found), headers=NO_STORE)


async def _received(edge: Edge, body: bytes, *, batch: bool) -> Sequence[ReceivedEvent]:
    """Decode and validate the body. Raises BadEvent and TooLarge for what isn't a batch."""
    now = edge.clock.now()
    # A single event takes microseconds; a batch may have a thousand.
    return await edge.in_thread(read_batch, body, now) if batch else [read_event(body, now)]


def _warm_up(edge: Edge, received: Sequence[ReceivedEvent]) -> None:
    """Prepare the inboxes of users seen elsewhere, who may open them next."""
    for each in received:
        if isinstance(each.event, Sighting):
            edge.warm_up.add(each.event.user)


def _asked(request: Sent) -> list[str]:
    """Each `dry_run` that is said: the framework's is the last, which somebody on the way may have added."""
    return [str(word) for word in request.query_params.getall("dry_run", [DELIVERS])]


def _require(caller: Caller, received: Sequence[ReceivedEvent]) -> None:
    """Raise Forbidden before any event is accepted, even if only one of a batch is forbidden.

    An event that can't be decoded has no type, and is refused later for that reason.
    """
    if caller.scopes.issuperset(SCOPES):
        return
    for kind in dict.fromkeys(each.type for each in received if each.type is not None):
        caller.require(NEEDED[kind])


async def _previewed(edge: Edge, received: Sequence[ReceivedEvent], kind: str, asked: Sequence[str]) -> PreviewsBody:
    """Whoever asks for a dry run, in whatever words, wants nobody to be told."""
    if asked != [PREVIEWS]:
        raise Refused("dry_run is true or false.")
    if kind == BATCH:
        raise NotSupported("There is a dry run of one event, and none of a batch.")
    event = received[0].event
    if isinstance(event, NotifierError):
        raise event
    if not isinstance(event, Event):
        raise NotSupported("There is a dry run of mentions alone.")
    if len(event.mentioned) > MOST_PREVIEWED:
        raise NotSupported(f"There is a dry run of {MOST_PREVIEWED} accounts at most.")
    return previews(await edge.in_thread(edge.preview.estimate, event))


async def _body(request: Sent, most: int) -> bytes:
    """Raises TooLarge as soon as it is certain, and before the rest is read."""
    if (request.content_length or 0) > most:
        raise TooLarge(f"{most} bytes are the most.")
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > most:
            raise TooLarge(f"{most} bytes are the most.")
    return bytes(found)


def _one(receipt: Receipt) -> AcceptedEventBody:
    if receipt.error is not None:
        raise receipt.error
    return _accepted(receipt)


def _batch(receipts: Sequence[Receipt]) -> AcceptedBatch:
    """The refusal of the first when not one was taken: then the whole batch may be sent again."""
    if not receipts:
        raise BadEvent("The batch has no events.")
    if receipts[0].error and all(receipt.answer is IntakeStatus.REFUSED for receipt in receipts):
        raise receipts[0].error
    return AcceptedBatch(results=[_accepted(receipt) for receipt in receipts])


def _accepted(receipt: Receipt) -> AcceptedEventBody:
    return AcceptedEventBody(
        status=receipt.answer,
        id=receipt.event.id if receipt.event else None,
        source=receipt.event.source if receipt.event else None,
        problem=problem(receipt.error) if receipt.error else None,
    )


def _fate(fate: EventReport) -> FateBody:
    return FateBody(id=fate.id, status=fate.status, accounts=[_account(one) for one in fate.accounts])


def _account(fate: AccountFate) -> EventAccountBody:
    bursts = [_burst(one) for one in fate.bursts]
    return EventAccountBody(source=fate.source, account=fate.account, refusal=fate.refusal, bursts=bursts)


def _burst(fate: BurstFate) -> BurstBody:
    return BurstBody(
        burst=str(fate.burst.key),
        opened_at=fate.burst.opened_at,
        count=fate.burst.count,
        lane=fate.burst.lane,
        tiers={str(one.tier): _tier(one) for one in fate.tiers},
        note=note_of(fate.burst),
    )


def _tier(fate: TierFate) -> EventTierBody:
    return EventTierBody(
        state=fate.state,
        slices=SliceCount(total=fate.slices, ended=fate.ended),
        people=fate.people,
        eta_seconds=fate.eta_seconds,
    )

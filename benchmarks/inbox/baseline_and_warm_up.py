"""Prepares the comparisons: a bare handler and a Redis inbox, filled with the product's pages."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import redis

from benchmarks.inbox.baseline_server import COMMAND, INBOX, MENTION, BaselineFiles, StoredMention
from benchmarks.inbox.cases import UNREAD, WARM
from benchmarks.inbox.http_requests_and_load_loops import PAGE, Answered, get, read_answers
from benchmarks.inbox.json_line_process import HelperProcess
from benchmarks.inbox.measured_system import InboxStage
from benchmarks.peers.valkey import peers_valkey
from notifier.devkit.check.check_run import Report

WARM_UP_TIMEOUT_SECONDS = 120.0
"""Seconds for the first opens of all users. Users who are not warm by then are left out of cases that need their
pages."""
INBOX_ITEMS = 60
"""Items per inbox in Redis: three pages, because a team would keep more than one page."""
DEEP_USERS, DEEP_PAGE = 20, 5
"""Number of users with 300 followed subjects, and the number of their deep page."""


@contextmanager
def with_baseline(stage: InboxStage, tell: Report) -> Iterator[Sequence[Answered]]:
    """Warm up the product, start the baseline with its responses, and yield the product's warm pages."""
    tell("opening the inbox of every warm user once")
    warm = warm_up(stage)
    answered = [answer for answer in warm if answer.status == 200]
    page = sorted(answered, key=lambda answer: len(answer.body))[len(answered) // 2]
    unread = stage.load(UNREAD, connections=1, count=1, first=page.number, answers=str(stage.folder / "unread"))
    assert unread.opens == 1
    [badge] = read_answers(stage.folder / "unread")
    with peers_valkey(stage.folder) as valkey:
        fill_inboxes(valkey.socket, answered)
        stored = BaselineFiles(
            page=_written(stage.folder / "page.json", page.body),
            unread=_written(stage.folder / "unread.json", badge.body),
            cache=str(valkey.socket),
        )
        arguments = [*COMMAND, msgspec.json.encode(stored).decode()]
        with HelperProcess(arguments=arguments, log=stage.folder / "baseline.log") as baseline:
            stage.helpers["baseline"] = baseline
            try:
                yield answered
            finally:
                del stage.helpers["baseline"]


def warm_up(stage: InboxStage, count: int | None = None) -> Sequence[Answered]:
    """Open the inbox of every warm user once, or of this many of them. Return the responses."""
    place = stage.folder / "warm-answers"
    count = count or stage.population.group(WARM.requests).users
    stage.load(WARM, connections=16, first=0, count=count, seconds=WARM_UP_TIMEOUT_SECONDS, answers=str(place))
    return read_answers(place)


def write_not_modified(stage: InboxStage, answered: Sequence[Answered]) -> None:
    """Write requests with the ETag of the user's current page."""
    stage.files.write(
        "not_modified",
        [
            get(PAGE, stage.files.token("warm", answer.number), {"If-None-Match": answer.headers["etag"]})
            for answer in answered
        ],
    )


def write_later_pages(stage: InboxStage, answered: Sequence[Answered]) -> None:
    """Write requests for the second page of warm users, and for a deep page of users with 300 followed subjects."""
    tokens = stage.files.tokens("warm")
    second = [(tokens[answer.number], answer.json["next"]) for answer in answered]
    stage.files.write("second_page", [_page_request(token, cursor) for token, cursor in second if cursor])
    deep = [(token, _cursor(stage, token)) for token in stage.files.tokens("many")[:DEEP_USERS]]
    stage.files.write("deep_page", [_page_request(token, cursor) for token, cursor in deep if cursor])


def fill_inboxes(socket: Path, answered: Sequence[Answered]) -> None:
    """Put each user's page into a sorted set of that user, followed by older mentions of other users."""
    pages = {answer.number: answer.json["items"] for answer in answered}
    known = {item["opened_at"] + item["subject"]: item for items in pages.values() for item in items}
    older = [*known][:INBOX_ITEMS]
    with redis.Redis(unix_socket_path=str(socket)) as client, client.pipeline(transaction=False) as pipeline:
        for name, item in known.items():
            blob = json.dumps({field: item[field] for field in StoredMention.__struct_fields__})
            pipeline.set(MENTION.format(name), blob)
        for number, items in pages.items():
            own = [item["opened_at"] + item["subject"] for item in items]
            kept = [*own, *(name for name in older if name not in own)][:INBOX_ITEMS]
            pipeline.zadd(INBOX.format(number), {MENTION.format(name): -at for at, name in enumerate(kept)})
            pipeline.execute()


def _cursor(stage: InboxStage, token: str) -> str | None:
    """Walk to the page before the deep page. Return its cursor, or None if the inbox ends earlier."""
    cursor: str | None = None
    place = stage.folder / "deep-answer"
    for _ in range(DEEP_PAGE - 1):
        stage.files.write("walk", [_page_request(token, cursor) if cursor else get(PAGE, token)])
        stage.client.run(stage.files.path("walk"), stage.port(WARM), connections=1, count=1, answers=str(place))
        [answer] = read_answers(place)
        cursor = answer.json["next"] if answer.status == 200 else None
        if not cursor:
            return None
    return cursor


def _page_request(token: str, cursor: str) -> bytes:
    return get(f"{PAGE}?cursor={cursor}&limit=20", token)


def _written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)

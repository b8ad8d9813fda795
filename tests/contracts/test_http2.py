"""HTTP/2 transports return one answer per post, and take posts only while there is room."""

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pytest

from notifier.ports.push import NoReply, Post, Reply
from tests.contracts.http2_transports import WIRES, Wire


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Wire]:
    with request.param(tmp_path) as wire_:
        yield wire_


def test_each_post_is_answered_once(wire: Wire) -> None:
    wire.handler.answer = lambda post: Reply(status=200, body=post.path.encode())
    posts = wire.posts(500)
    answers = [*wire.transport.exchange(posts)]
    assert sorted(post.path for post, _ in answers) == sorted(post.path for post in posts)
    assert all(isinstance(answer, Reply) and answer.body == post.path.encode() for post, answer in answers)
    assert sorted(wire.handler.paths) == sorted(post.path for post in posts)


def test_answer_comes_with_the_same_post_object(wire: Wire) -> None:
    sent = wire.post(7)
    [(post, _)] = wire.transport.exchange([sent])
    assert post is sent


def test_request_arrives_unchanged(wire: Wire) -> None:
    long_value = "bearer " + "x" * 3_000
    headers = [("authorization", long_value), ("apns-topic", "app.example"), ("x-empty", ""), ("te", "a")]
    sent = Post(origin=wire.origin, path="/send?a=b&c=%20", headers=headers, body=bytes(range(256)) * 16)
    assert [*wire.transport.exchange([sent])] == [(sent, Reply(status=200))]
    [received] = wire.handler.posts
    assert (received.origin, received.path, received.body) == (sent.origin, sent.path, sent.body)
    assert [*received.headers] == headers


def test_response_arrives_unchanged(wire: Wire) -> None:
    reply = Reply(status=410, headers={"apns-id": "a-b", "retry-after": "600"}, body=b'{"reason":"Unregistered"}' * 100)
    wire.handler.answer = lambda post: reply
    assert [answer for _, answer in wire.transport.exchange(wire.posts(3))] == [reply] * 3


@pytest.mark.parametrize("status", [200, 201, 301, 404, 429, 503])
def test_every_status_is_returned_without_redirect(wire: Wire, status: int) -> None:
    wire.handler.answer = lambda post: Reply(status=status, headers={"location": "http://127.0.0.1/"})
    [(_, answer)] = wire.transport.exchange(wire.posts(1))
    assert isinstance(answer, Reply)
    assert (answer.status, len(wire.handler.posts)) == (status, 1)


def test_post_without_body_is_sent(wire: Wire) -> None:
    [(_, answer)] = wire.transport.exchange([wire.post(1, body=b"")])
    assert answer == Reply(status=200)
    assert wire.handler.posts[0].body == b""


def test_exchange_without_posts_returns_nothing(wire: Wire) -> None:
    assert [*wire.transport.exchange([])] == []


def test_posts_are_taken_only_while_there_is_room(wire: Wire) -> None:
    taken = 0

    def endless() -> Iterator[Post]:
        nonlocal taken
        for number in count():
            taken += 1
            yield wire.post(number)

    exchange = wire.transport.exchange(endless())
    assert len([*islice(exchange, 2_000)]) == 2_000
    assert taken < 2_000 + 3_000
    exchange.close()  # type: ignore[attr-defined]  # a generator in every transport


def test_abandoned_exchange_does_not_affect_next_exchange(wire: Wire) -> None:
    abandoned = wire.transport.exchange(wire.posts(200))
    next(abandoned)
    abandoned.close()  # type: ignore[attr-defined]  # a generator in every transport
    wire.handler.answer = lambda post: Reply(status=201)
    later_posts = [wire.post(number) for number in range(1_000, 1_100)]
    answers = [*wire.transport.exchange(later_posts)]
    assert {post.path for post, _ in answers} == {post.path for post in later_posts}
    assert {answer for _, answer in answers if isinstance(answer, NoReply)} == set()
    assert len(answers) == 100


def test_error_of_post_iterator_is_raised_and_next_exchange_works(wire: Wire) -> None:
    def broken() -> Iterator[Post]:
        yield from wire.posts(10)
        raise LookupError("for a test")

    with pytest.raises(LookupError):
        [*wire.transport.exchange(broken())]
    assert len([*wire.transport.exchange(wire.posts(10))]) == 10


def test_suspect_posts_are_answered_like_others(wire: Wire) -> None:
    posts = [wire.post(number, suspect=number % 2 == 0) for number in range(20)]
    assert {id(post) for post, answer in wire.transport.exchange(posts) if answer == Reply(status=200)} == {
        id(post) for post in posts
    }


def test_outcome_is_unknown_without_answer(wire: Wire) -> None:
    wire.handler.answer = lambda post: NoReply(reason="it stalls", may_have_arrived=True)
    [(_, answer)] = wire.transport.exchange(wire.posts(1))
    assert isinstance(answer, NoReply)
    assert answer.may_have_arrived
    assert len(wire.handler.posts) == 1


def test_refused_post_is_reported_as_not_sent(wire: Wire) -> None:
    wire.handler.answer = lambda post: NoReply(reason="the stream was refused", may_have_arrived=False)
    [(_, answer)] = wire.transport.exchange(wire.posts(1))
    assert answer == NoReply(reason="the stream was refused", may_have_arrived=False)

"""The contract of a transport: each post comes back with the answer to it, once, and is taken when there is room."""

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pytest

from notifier.ports.push import Post, Reply, Silence
from tests.contracts.transports import WIRES, Wire


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Wire]:
    with request.param(tmp_path) as found:
        yield found


def test_each_post_comes_back_once_with_the_answer_to_it(wire: Wire) -> None:
    wire.handler.answer = lambda post: Reply(status=200, body=post.path.encode())
    posts = wire.posts(500)
    answered = [*wire.transport.exchange(posts)]
    assert sorted(post.path for post, _ in answered) == sorted(post.path for post in posts)
    assert all(isinstance(answer, Reply) and answer.body == post.path.encode() for post, answer in answered)
    assert sorted(wire.handler.paths) == sorted(post.path for post in posts)


def test_the_post_that_comes_back_is_the_one_that_was_given(wire: Wire) -> None:
    given = wire.post(7)
    [(post, _)] = wire.transport.exchange([given])
    assert post is given


def test_what_is_posted_arrives_as_it_was_said(wire: Wire) -> None:
    long = "bearer " + "x" * 3_000
    headers = [("authorization", long), ("apns-topic", "app.example"), ("x-empty", ""), ("te", "a")]
    given = Post(origin=wire.origin, path="/send?a=b&c=%20", headers=headers, body=bytes(range(256)) * 16)
    assert [*wire.transport.exchange([given])] == [(given, Reply(status=200))]
    [heard] = wire.handler.posts
    assert (heard.origin, heard.path, heard.body) == (given.origin, given.path, given.body)
    assert [*heard.headers] == headers


def test_an_answer_arrives_as_it_was_said(wire: Wire) -> None:
    said = Reply(status=410, headers={"apns-id": "a-b", "retry-after": "600"}, body=b'{"reason":"Unregistered"}' * 100)
    wire.handler.answer = lambda post: said
    assert [answer for _, answer in wire.transport.exchange(wire.posts(3))] == [said] * 3


@pytest.mark.parametrize("status", [200, 201, 301, 404, 429, 503])
def test_every_status_is_an_answer_and_none_is_followed(wire: Wire, status: int) -> None:
    wire.handler.answer = lambda post: Reply(status=status, headers={"location": "http://127.0.0.1/"})
    [(_, answer)] = wire.transport.exchange(wire.posts(1))
    assert isinstance(answer, Reply)
    assert (answer.status, len(wire.handler.posts)) == (status, 1)


def test_a_post_without_a_body_is_one(wire: Wire) -> None:
    [(_, answer)] = wire.transport.exchange([wire.post(1, body=b"")])
    assert answer == Reply(status=200)
    assert wire.handler.posts[0].body == b""


def test_of_nothing_comes_nothing(wire: Wire) -> None:
    assert [*wire.transport.exchange([])] == []


def test_posts_are_taken_as_there_is_room_and_not_all_at_once(wire: Wire) -> None:
    taken = 0

    def endless() -> Iterator[Post]:
        nonlocal taken
        for number in count():
            taken += 1
            yield wire.post(number)

    exchange = wire.transport.exchange(endless())
    assert len([*islice(exchange, 2_000)]) == 2_000
    assert taken < 2_000 + 3_000
    exchange.close()  # type: ignore[attr-defined]  # a generator, in all of them


def test_an_exchange_that_is_left_amid_it_answers_nothing_to_the_next_one(wire: Wire) -> None:
    left = wire.transport.exchange(wire.posts(200))
    next(left)
    left.close()  # type: ignore[attr-defined]  # a generator, in all of them
    wire.handler.answer = lambda post: Reply(status=201)
    again = [wire.post(number) for number in range(1_000, 1_100)]
    answered = [*wire.transport.exchange(again)]
    assert {post.path for post, _ in answered} == {post.path for post in again}
    assert {answer for _, answer in answered if isinstance(answer, Silence)} == set()
    assert len(answered) == 100


def test_what_the_maker_of_posts_raises_is_raised_and_the_next_exchange_is_whole(wire: Wire) -> None:
    def broken() -> Iterator[Post]:
        yield from wire.posts(10)
        raise LookupError("for a test")

    with pytest.raises(LookupError):
        [*wire.transport.exchange(broken())]
    assert len([*wire.transport.exchange(wire.posts(10))]) == 10


def test_what_is_suspect_is_answered_like_the_rest(wire: Wire) -> None:
    posts = [wire.post(number, suspect=number % 2 == 0) for number in range(20)]
    assert {id(post) for post, answer in wire.transport.exchange(posts) if answer == Reply(status=200)} == {
        id(post) for post in posts
    }


def test_who_acts_upon_a_post_and_says_nothing_leaves_it_unknown(wire: Wire) -> None:
    wire.handler.answer = lambda post: Silence(reason="it stalls", left=True)
    [(_, answer)] = wire.transport.exchange(wire.posts(1))
    assert isinstance(answer, Silence)
    assert answer.left
    assert len(wire.handler.posts) == 1


def test_who_refuses_a_post_has_certainly_not_acted_upon_it(wire: Wire) -> None:
    wire.handler.answer = lambda post: Silence(reason="it refused the stream", left=False)
    [(_, answer)] = wire.transport.exchange(wire.posts(1))
    assert answer == Silence(reason="it refused the stream", left=False)

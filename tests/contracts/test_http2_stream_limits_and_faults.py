"""HTTP/2 stream limits and provider faults: no post that may have arrived is repeated."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from notifier.devkit.http2.connection import Http2Behavior
from notifier.ports.push import NoReply, Post, Reply
from tests.contracts.http2_transports import (
    LONG_TIMEOUTS,
    SHORT_TIMEOUTS,
    THREE_SECOND_ANSWERS,
    FaultyWire,
    faulty_wire,
)
from tests.support.certificate_authority import Authority

Answers = dict[str, Reply | NoReply]
"""Answers by path."""


def answers(wire: FaultyWire, posts: Sequence[Post]) -> Answers:
    answered = [*wire.transport.exchange(posts)]
    assert sorted(post.path for post, _ in answered) == sorted(post.path for post in posts)
    return {post.path: answer for post, answer in answered}


def accepted(answers_: Answers) -> set[str]:
    return {path for path, answer in answers_.items() if isinstance(answer, Reply)}


def unknown(answers_: Answers) -> set[str]:
    return {path for path, answer in answers_.items() if isinstance(answer, NoReply) and answer.may_have_arrived}


def not_sent(answers_: Answers) -> set[str]:
    return {path for path, answer in answers_.items() if isinstance(answer, NoReply) and not answer.may_have_arrived}


def reasons(answers_: Answers) -> set[str]:
    return {answer.reason for answer in answers_.values() if isinstance(answer, NoReply)}


def sent_twice(wire: FaultyWire) -> set[str]:
    return {path for path, count in Counter(wire.handler.paths).items() if count > 1}


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_open_streams_never_exceed_the_providers_limit(limit: int) -> None:
    with faulty_wire(
        Http2Behavior(max_concurrent_streams=limit, latency=timedelta(milliseconds=1)), LONG_TIMEOUTS
    ) as wire:
        assert len(accepted(answers(wire, wire.posts(300)))) == 300
        assert wire.server.counts.max_streams == limit


def test_provider_without_settings_gets_one_request_at_a_time() -> None:
    with faulty_wire(Http2Behavior(sends_no_settings=True), LONG_TIMEOUTS) as wire:
        assert len(accepted(answers(wire, wire.posts(100)))) == 100
        assert (wire.server.counts.max_streams, wire.server.counts.connections) == (1, 1)


def test_provider_without_limit_gets_our_own_limit() -> None:
    with faulty_wire(
        Http2Behavior(max_concurrent_streams=None, latency=timedelta(milliseconds=5)),
        replace(LONG_TIMEOUTS, max_streams=50),
    ) as wire:
        assert len(accepted(answers(wire, wire.posts(400)))) == 400
        assert wire.server.counts.max_streams == 50


def test_changed_stream_limit_applies_in_both_directions() -> None:
    behavior = Http2Behavior(max_concurrent_streams=100, latency=timedelta(milliseconds=1))
    with faulty_wire(behavior, replace(LONG_TIMEOUTS, max_connections=1)) as wire:
        exchange = iter(wire.transport.exchange(wire.posts(900)))
        assert count_accepted(exchange, 200) == 200
        wire.server.behave(replace(behavior, max_concurrent_streams=1))
        assert count_accepted(exchange, 200) == 200  # those already in flight, and many more
        wire.server.counts.max_streams = 0
        assert count_accepted(exchange, 100) == 100
        assert wire.server.counts.max_streams == 1
        wire.server.behave(replace(behavior, max_concurrent_streams=40))
        assert count_accepted(exchange, 900) == 400
        assert wire.server.counts.max_streams == 40
        assert (sent_twice(wire), wire.server.counts.connections) == (set(), 1)


def count_accepted(exchange: Iterator[tuple[Post, Reply | NoReply]], limit: int) -> int:
    """Count how many of the next answers are accepted."""
    return sum(isinstance(answer, Reply) for _, (_, answer) in zip(range(limit), exchange, strict=False))


def test_connections_are_opened_only_as_needed() -> None:
    limits = replace(LONG_TIMEOUTS, max_connections=3, max_stream_wait=timedelta(milliseconds=10))
    with faulty_wire(Http2Behavior(max_concurrent_streams=1, latency=timedelta(milliseconds=20)), limits) as wire:
        assert len(accepted(answers(wire, wire.posts(30)))) == 30
        assert wire.server.counts.connections == 3
    with faulty_wire(Http2Behavior(), replace(LONG_TIMEOUTS, max_connections=3)) as wire:
        assert len(accepted(answers(wire, wire.posts(30)))) == 30
        assert wire.server.counts.connections == 1


def test_graceful_goaway_loses_and_repeats_nothing() -> None:
    with faulty_wire(Http2Behavior(goaway_after=100, latency=timedelta(milliseconds=1)), LONG_TIMEOUTS) as wire:
        assert len(accepted(answers(wire, wire.posts(1_000)))) == 1_000
        assert sent_twice(wire) == set()
        assert wire.server.counts.connections >= 10


def test_goaway_then_cut_leaves_unanswered_posts_unknown() -> None:
    with faulty_wire(
        Http2Behavior(goaway_after=50, cut_after=50, latency=timedelta(milliseconds=2)), LONG_TIMEOUTS
    ) as wire:
        answers_by_path = answers(wire, wire.posts(500))
        assert sent_twice(wire) == set()
        assert accepted(answers_by_path) | unknown(answers_by_path) == {*wire.handler.paths}
        assert unknown(answers_by_path)
        assert not not_sent(answers_by_path) & {*wire.handler.paths}


def test_cut_connection_reports_unknown_posts_and_sends_others_once() -> None:
    with faulty_wire(Http2Behavior(cut_after=50), LONG_TIMEOUTS) as wire:
        assert accepted(answers(wire, wire.posts(1))) == {"/3/device/0"}
        answers_by_path = answers(wire, [wire.post(number) for number in range(1, 500)])
        assert sent_twice(wire) == set()
        assert {*wire.handler.paths} <= accepted(answers_by_path) | unknown(answers_by_path) | {"/3/device/0"}
        assert unknown(answers_by_path)
        assert not not_sent(answers_by_path) & {*wire.handler.paths}


def test_refused_stream_is_sent_again() -> None:
    with faulty_wire(Http2Behavior(refuse_first_streams=5), LONG_TIMEOUTS) as wire:
        assert len(accepted(answers(wire, wire.posts(100)))) == 100
        assert sent_twice(wire) == set()


def test_provider_that_refuses_everything_is_given_up() -> None:
    with faulty_wire(Http2Behavior(max_concurrent_streams=0), SHORT_TIMEOUTS) as wire:
        answers_by_path = answers(wire, wire.posts(300))
        assert len(not_sent(answers_by_path)) == 300 - len(wire.handler.posts)
        assert len(wire.handler.posts) <= 2  # the posts sent on each connection before the server announced its limit


def test_silent_provider_blocks_only_until_answer_timeout() -> None:
    with faulty_wire(Http2Behavior(never_responds=True, max_concurrent_streams=10), SHORT_TIMEOUTS) as wire:
        started = time.monotonic()
        answers_by_path = answers(wire, wire.posts(200))
        assert time.monotonic() - started < 5  # twenty turns of ten posts would take 8 s
        assert unknown(answers_by_path) == {*wire.handler.paths}
        assert len(unknown(answers_by_path)) >= 10
        assert len(not_sent(answers_by_path)) + len(unknown(answers_by_path)) == 200
        assert "no response in time" in reasons(answers_by_path)


def test_stalled_stream_does_not_block_others() -> None:
    def stalling(post: Post) -> Reply | NoReply:
        return NoReply(reason="it stalls", may_have_arrived=True) if post.path.endswith("/7") else Reply(status=200)

    with faulty_wire(Http2Behavior(), THREE_SECOND_ANSWERS, stalling) as wire:
        answers_by_path = answers(wire, wire.posts(100))
        assert unknown(answers_by_path) == {"/3/device/7"}
        assert len(accepted(answers_by_path)) == 99
        assert wire.server.counts.connections == 1


def test_dead_connection_is_closed_before_answer_timeout() -> None:
    with faulty_wire(
        Http2Behavior(never_responds=True, ignores_pings=True),
        replace(LONG_TIMEOUTS, pong_timeout=SHORT_TIMEOUTS.pong_timeout),
    ) as wire:
        started = time.monotonic()
        answers_by_path = answers(wire, wire.posts(3))
        assert time.monotonic() - started < 5
        assert "/3/device/0" in unknown(answers_by_path)
        assert "the connection is dead: the peer answers no ping" in reasons(answers_by_path)
        assert unknown(answers_by_path) == {*wire.handler.paths}


def test_connection_that_died_while_idle_is_not_used() -> None:
    limits = replace(
        LONG_TIMEOUTS, ping_after=timedelta(seconds=20), ping_after_idle=timedelta(0), pong_timeout=timedelta(seconds=1)
    )
    with faulty_wire(Http2Behavior(), limits) as wire:
        assert len(accepted(answers(wire, wire.posts(10)))) == 10
        wire.server.behave(Http2Behavior(ignores_pings=True))
        assert len(accepted(answers(wire, [wire.post(number) for number in range(10, 20)]))) == 10
        assert sent_twice(wire) == set()
        assert wire.server.counts.connections >= 2  # a busy machine may find the new connection idle, too


def test_live_connection_is_reused_after_idle_period() -> None:
    with faulty_wire(Http2Behavior(), replace(LONG_TIMEOUTS, ping_after_idle=timedelta(0))) as wire:
        for _ in range(3):
            assert len(accepted(answers(wire, wire.posts(10)))) == 10
        assert wire.server.counts.connections == 1


def test_connection_closed_between_exchanges_is_replaced() -> None:
    with faulty_wire(Http2Behavior()) as wire:
        assert len(accepted(answers(wire, wire.posts(10)))) == 10
        wire.server.cut()
        assert len(accepted(answers(wire, [wire.post(number) for number in range(10, 20)]))) == 10
        assert (sent_twice(wire), wire.server.counts.connections) == (set(), 2)


def test_provider_that_always_disconnects_is_avoided_for_a_while() -> None:
    with faulty_wire(Http2Behavior(cut_after=1), SHORT_TIMEOUTS) as wire:
        answers_by_path = answers(wire, wire.posts(1_000))
        assert accepted(answers_by_path) == set()
        assert unknown(answers_by_path) >= {*wire.handler.paths}
        assert sent_twice(wire) == set()
        assert wire.server.counts.connections <= 10


def test_suspect_post_uses_a_separate_connection() -> None:
    with faulty_wire(
        Http2Behavior(max_concurrent_streams=1, latency=timedelta(milliseconds=5)),
        replace(LONG_TIMEOUTS, max_connections=1),
    ) as wire:
        posts = [wire.post(number, suspect=number % 2 == 0) for number in range(40)]
        assert len(accepted(answers(wire, posts))) == 40
        assert wire.server.counts.connections == 2


def test_body_larger_than_window_is_sent_as_window_opens() -> None:
    body = bytes(range(256)) * 16
    with faulty_wire(Http2Behavior(initial_window=1_000), LONG_TIMEOUTS) as wire:
        posts = [wire.post(number, body=body) for number in range(20)]
        assert len(accepted(answers(wire, posts))) == 20
        assert {post.body for post in wire.handler.posts} == {body}


def test_body_blocked_by_window_is_reported_as_not_sent() -> None:
    with faulty_wire(
        Http2Behavior(initial_window=10, window_update_delay=timedelta(seconds=60)), SHORT_TIMEOUTS
    ) as wire:
        assert len(not_sent(answers(wire, [*wire.posts(1), wire.post(1, body=b"x" * 100)]))) == 1
        assert wire.handler.paths == ["/3/device/0"]


def test_endless_answer_is_truncated_but_its_status_counts() -> None:
    with faulty_wire(Http2Behavior(), LONG_TIMEOUTS, lambda post: Reply(status=403, body=b"x" * 1_000_000)) as wire:
        [answer] = answers(wire, wire.posts(1)).values()
        assert isinstance(answer, Reply)
        assert (answer.status, len(answer.body)) == (403, 32_768)
        assert len(accepted(answers(wire, wire.posts(3)))) == 3


def test_concurrent_exchanges_are_rejected() -> None:
    with faulty_wire(Http2Behavior()) as wire:
        first = wire.transport.exchange(wire.posts(10))
        next(first)
        with pytest.raises(RuntimeError, match="already running another"):
            next(wire.transport.exchange(wire.posts(1)))
        assert len([*first]) == 9


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("secure", [False, True], ids=["clear", "tls"])
def test_random_faults_report_each_post_once_and_repeat_none(seed: int, secure: bool, tmp_path: Path) -> None:
    rng, authority = Random(seed), Authority.create(tmp_path, "authority") if secure else None
    with faulty_wire(
        random_behavior(rng), replace(SHORT_TIMEOUTS, max_streams=rng.choice([3, 50, 1_000])), authority=authority
    ) as wire:
        answers_by_path: Answers = {}
        for post, answer in wire.transport.exchange(wire.posts(1_500)):
            assert post.path not in answers_by_path
            answers_by_path[post.path] = answer
            match rng.randrange(200):
                case 0:
                    wire.server.cut()
                case 1 | 2 | 3:
                    wire.server.behave(random_behavior(rng))
        assert len(answers_by_path) == 1_500
        assert sent_twice(wire) == set()
        assert {*wire.handler.paths} <= accepted(answers_by_path) | unknown(answers_by_path)
        assert accepted(answers_by_path) <= {*wire.handler.paths}
        assert not not_sent(answers_by_path) & {*wire.handler.paths}


def random_behavior(rng: Random) -> Http2Behavior:
    """Return a random behavior; most of them answer."""
    return Http2Behavior(
        max_concurrent_streams=rng.choice([1, 2, 100, 1_000, None]),
        latency=timedelta(milliseconds=rng.choice([0, 0, 1, 5])),
        goaway_after=rng.choice([None, None, 1, 20, 100]),
        cut_after=rng.choice([None, None, None, 1, 70]),
        refuse_first_streams=rng.choice([0, 0, 3]),
        never_responds=rng.random() < 0.1,
        ignores_pings=rng.random() < 0.1,
        sends_no_settings=rng.random() < 0.1,
        initial_window=rng.choice([1, 65_535]),
    )

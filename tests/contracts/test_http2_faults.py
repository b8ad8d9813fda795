"""What goes wrong between us and a provider: nothing is sent twice that may have arrived, and what may have is told."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from notifier.devkit.http2.behaviour import Conduct
from notifier.ports.push import Post, Reply, Silence
from tests.contracts.transports import PATIENT, SOON, Faulty, faulty
from tests.support.test_ca import Authority

Answers = dict[str, Reply | Silence]
"""By path."""


def answers(wire: Faulty, posts: Sequence[Post]) -> Answers:
    found = [*wire.transport.exchange(posts)]
    assert sorted(post.path for post, _ in found) == sorted(post.path for post in posts)
    return {post.path: answer for post, answer in found}


def accepted(found: Answers) -> set[str]:
    return {path for path, answer in found.items() if isinstance(answer, Reply)}


def unknown(found: Answers) -> set[str]:
    return {path for path, answer in found.items() if isinstance(answer, Silence) and answer.left}


def safe(found: Answers) -> set[str]:
    return {path for path, answer in found.items() if isinstance(answer, Silence) and not answer.left}


def reasons(found: Answers) -> set[str]:
    return {answer.reason for answer in found.values() if isinstance(answer, Silence)}


def twice(wire: Faulty) -> set[str]:
    return {path for path, times in Counter(wire.handler.paths).items() if times > 1}


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_no_more_streams_are_open_at_once_than_the_provider_takes(limit: int) -> None:
    with faulty(Conduct(streams=limit, latency=timedelta(milliseconds=1)), PATIENT) as wire:
        assert len(accepted(answers(wire, wire.posts(300)))) == 300
        assert wire.server.tally.most_streams == limit


def test_a_provider_that_says_no_settings_gets_one_request_at_a_time() -> None:
    with faulty(Conduct(mute=True), PATIENT) as wire:
        assert len(accepted(answers(wire, wire.posts(100)))) == 100
        assert (wire.server.tally.most_streams, wire.server.tally.connections) == (1, 1)


def test_a_provider_that_says_no_limit_gets_as_many_as_we_allow_ourselves() -> None:
    with faulty(Conduct(streams=None, latency=timedelta(milliseconds=5)), replace(PATIENT, streams=50)) as wire:
        assert len(accepted(answers(wire, wire.posts(400)))) == 400
        assert wire.server.tally.most_streams == 50


def test_a_limit_that_changes_is_kept_from_then_on_both_ways() -> None:
    behaviour = Conduct(streams=100, latency=timedelta(milliseconds=1))
    with faulty(behaviour, replace(PATIENT, connections=1)) as wire:
        exchange = iter(wire.transport.exchange(wire.posts(900)))
        assert taken(exchange, 200) == 200
        wire.server.behave(replace(behaviour, streams=1))
        assert taken(exchange, 200) == 200  # those that were on their way, and many more
        wire.server.tally.most_streams = 0
        assert taken(exchange, 100) == 100
        assert wire.server.tally.most_streams == 1
        wire.server.behave(replace(behaviour, streams=40))
        assert taken(exchange, 900) == 400
        assert wire.server.tally.most_streams == 40
        assert (twice(wire), wire.server.tally.connections) == (set(), 1)


def taken(exchange: Iterator[tuple[Post, Reply | Silence]], many: int) -> int:
    """How many of the next ones are accepted."""
    return sum(isinstance(answer, Reply) for _, (_, answer) in zip(range(many), exchange, strict=False))


def test_connections_are_opened_as_they_are_needed_and_no_more() -> None:
    crowded = replace(PATIENT, connections=3, crowded=timedelta(milliseconds=10))
    with faulty(Conduct(streams=1, latency=timedelta(milliseconds=20)), crowded) as wire:
        assert len(accepted(answers(wire, wire.posts(30)))) == 30
        assert wire.server.tally.connections == 3
    with faulty(Conduct(), replace(PATIENT, connections=3)) as wire:
        assert len(accepted(answers(wire, wire.posts(30)))) == 30
        assert wire.server.tally.connections == 1


def test_a_graceful_goaway_loses_nothing_and_doubles_nothing() -> None:
    with faulty(Conduct(goaway_after=100, latency=timedelta(milliseconds=1)), PATIENT) as wire:
        assert len(accepted(answers(wire, wire.posts(1_000)))) == 1_000
        assert twice(wire) == set()
        assert wire.server.tally.connections >= 10


def test_who_cuts_the_connection_after_goaway_leaves_unknown_what_was_acted_upon_and_not_answered() -> None:
    with faulty(Conduct(goaway_after=50, cut_after=50, latency=timedelta(milliseconds=2)), PATIENT) as wire:
        found = answers(wire, wire.posts(500))
        assert twice(wire) == set()
        assert accepted(found) | unknown(found) == {*wire.handler.paths}
        assert unknown(found)
        assert not safe(found) & {*wire.handler.paths}


def test_of_a_connection_that_is_cut_is_told_what_may_have_arrived_and_the_rest_is_sent_once() -> None:
    with faulty(Conduct(cut_after=50), PATIENT) as wire:
        assert accepted(answers(wire, wire.posts(1))) == {"/3/device/0"}
        found = answers(wire, [wire.post(number) for number in range(1, 500)])
        assert twice(wire) == set()
        assert {*wire.handler.paths} <= accepted(found) | unknown(found) | {"/3/device/0"}
        assert unknown(found)
        assert not safe(found) & {*wire.handler.paths}


def test_a_stream_that_is_refused_is_sent_again() -> None:
    with faulty(Conduct(refused=5), PATIENT) as wire:
        assert len(accepted(answers(wire, wire.posts(100)))) == 100
        assert twice(wire) == set()


def test_a_provider_that_refuses_everything_is_not_asked_for_ever() -> None:
    with faulty(Conduct(streams=0), SOON) as wire:
        found = answers(wire, wire.posts(300))
        assert len(safe(found)) == 300 - len(wire.handler.posts)
        assert len(wire.handler.posts) <= 2  # those that each connection was sent before it said how many it takes


def test_a_provider_that_answers_nobody_keeps_us_for_as_long_as_an_answer_may_take() -> None:
    with faulty(Conduct(stalls=True, streams=10), SOON) as wire:
        began = time.monotonic()
        found = answers(wire, wire.posts(200))
        assert time.monotonic() - began < 4 * SOON.answer.total_seconds()
        assert unknown(found) == {*wire.handler.paths}
        assert len(unknown(found)) >= 10
        assert len(safe(found)) + len(unknown(found)) == 200
        assert "no answer in time" in reasons(found)


def test_one_stream_that_stalls_holds_up_no_other() -> None:
    def stalling(post: Post) -> Reply | Silence:
        return Silence(reason="it stalls", left=True) if post.path.endswith("/7") else Reply(status=200)

    with faulty(Conduct(), SOON, stalling) as wire:
        found = answers(wire, wire.posts(100))
        assert unknown(found) == {"/3/device/7"}
        assert len(accepted(found)) == 99
        assert wire.server.tally.connections == 1


def test_a_connection_without_a_sign_of_life_is_given_up_before_the_answers_are_due() -> None:
    with faulty(Conduct(stalls=True, deaf=True), replace(PATIENT, pong=SOON.pong)) as wire:
        began = time.monotonic()
        found = answers(wire, wire.posts(3))
        assert time.monotonic() - began < 5
        assert "/3/device/0" in unknown(found)
        assert "the connection gave no sign of life" in reasons(found)
        assert unknown(found) == {*wire.handler.paths}


def test_after_a_rest_nothing_is_sent_on_a_connection_that_has_died_in_silence() -> None:
    with faulty(Conduct(), replace(SOON, rest=timedelta(0))) as wire:
        assert len(accepted(answers(wire, wire.posts(10)))) == 10
        wire.server.behave(Conduct(deaf=True))
        assert len(accepted(answers(wire, [wire.post(number) for number in range(10, 20)]))) == 10
        assert (twice(wire), wire.server.tally.connections) == (set(), 2)


def test_after_a_rest_a_connection_that_lives_is_used_again() -> None:
    with faulty(Conduct(), replace(SOON, rest=timedelta(0))) as wire:
        for _ in range(3):
            assert len(accepted(answers(wire, wire.posts(10)))) == 10
        assert wire.server.tally.connections == 1


def test_a_connection_that_was_closed_between_two_exchanges_is_replaced() -> None:
    with faulty(Conduct()) as wire:
        assert len(accepted(answers(wire, wire.posts(10)))) == 10
        wire.server.cut()
        assert len(accepted(answers(wire, [wire.post(number) for number in range(10, 20)]))) == 10
        assert (twice(wire), wire.server.tally.connections) == (set(), 2)


def test_a_provider_that_hangs_up_on_everybody_is_left_alone_for_a_while() -> None:
    with faulty(Conduct(cut_after=1), SOON) as wire:
        found = answers(wire, wire.posts(1_000))
        assert accepted(found) == set()
        assert unknown(found) >= {*wire.handler.paths}
        assert twice(wire) == set()
        assert wire.server.tally.connections <= 10


def test_a_suspect_travels_on_a_connection_apart() -> None:
    with faulty(Conduct(streams=1, latency=timedelta(milliseconds=5)), replace(PATIENT, connections=1)) as wire:
        posts = [wire.post(number, suspect=number % 2 == 0) for number in range(40)]
        assert len(accepted(answers(wire, posts))) == 40
        assert wire.server.tally.connections == 2


def test_a_body_that_is_larger_than_the_window_is_sent_as_the_window_opens() -> None:
    body = bytes(range(256)) * 16
    with faulty(Conduct(window=1_000), PATIENT) as wire:
        posts = [wire.post(number, body=body) for number in range(20)]
        assert len(accepted(answers(wire, posts))) == 20
        assert {post.body for post in wire.handler.posts} == {body}


def test_a_body_that_never_had_room_has_not_arrived() -> None:
    with faulty(Conduct(window=10, pause=timedelta(seconds=60)), SOON) as wire:
        assert len(safe(answers(wire, [*wire.posts(1), wire.post(1, body=b"x" * 100)]))) == 1
        assert wire.handler.paths == ["/3/device/0"]


def test_an_answer_without_an_end_is_cut_off_and_its_status_counts() -> None:
    with faulty(Conduct(), PATIENT, lambda post: Reply(status=403, body=b"x" * 1_000_000)) as wire:
        [found] = answers(wire, wire.posts(1)).values()
        assert isinstance(found, Reply)
        assert (found.status, len(found.body)) == (403, 32_768)
        assert len(accepted(answers(wire, wire.posts(3)))) == 3


def test_two_exchanges_at_once_are_refused() -> None:
    with faulty(Conduct()) as wire:
        first = wire.transport.exchange(wire.posts(10))
        next(first)
        with pytest.raises(RuntimeError, match="amid another"):
            next(wire.transport.exchange(wire.posts(1)))
        assert len([*first]) == 9


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("secure", [False, True], ids=["clear", "tls"])
def test_whatever_goes_wrong_each_is_told_once_and_none_sent_twice(seed: int, secure: bool, tmp_path: Path) -> None:
    dice, made = Random(seed), Authority.made(tmp_path, "authority") if secure else None
    with faulty(behaviour(dice), replace(SOON, streams=dice.choice([3, 50, 1_000])), authority=made) as wire:
        found: Answers = {}
        for post, answer in wire.transport.exchange(wire.posts(1_500)):
            assert post.path not in found
            found[post.path] = answer
            match dice.randrange(200):
                case 0:
                    wire.server.cut()
                case 1 | 2 | 3:
                    wire.server.behave(behaviour(dice))
        assert len(found) == 1_500
        assert twice(wire) == set()
        assert {*wire.handler.paths} <= accepted(found) | unknown(found)
        assert accepted(found) <= {*wire.handler.paths}
        assert not safe(found) & {*wire.handler.paths}


def behaviour(dice: Random) -> Conduct:
    """Of any kind; mostly it answers."""
    return Conduct(
        streams=dice.choice([1, 2, 100, 1_000, None]),
        latency=timedelta(milliseconds=dice.choice([0, 0, 1, 5])),
        goaway_after=dice.choice([None, None, 1, 20, 100]),
        cut_after=dice.choice([None, None, None, 1, 70]),
        refused=dice.choice([0, 0, 3]),
        stalls=dice.random() < 0.1,
        deaf=dice.random() < 0.1,
        mute=dice.random() < 0.1,
        window=dice.choice([1, 65_535]),
    )

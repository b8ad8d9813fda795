"""The storm is the same for the same seed, and names as many accounts as it was asked for."""

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.cli.commands.demo import KINDS, OF_A_CLUSTER
from notifier.devkit.check.faults import STORE_OUTAGE, STRIKES, STRIKES_ON_ENGINES, schedule
from notifier.devkit.check.run import CheckPlan
from notifier.devkit.check.traffic import letter, rehearsal, tweets
from notifier.devkit.fixture.users import sample
from notifier.devkit.fixture.world import World

WORLD = World(universe=20_000, followers=10_000, celebrities=12, seed=1)


@given(st.integers(1, 300), st.integers(0, 99))
@settings(max_examples=30)
def test_there_are_as_many_mentions_as_asked_for_and_nobody_mentions_herself(mentions: int, seed: int) -> None:
    written = tweets(WORLD, mentions, seed)
    assert sum(len(tweet.mentioned) for tweet in written) == mentions
    assert all(tweet.author not in tweet.mentioned for tweet in written)
    assert len({tweet.id for tweet in written}) == len(written)
    assert written == tweets(WORLD, mentions, seed)


def test_every_celebrity_is_named_when_there_are_enough_mentions() -> None:
    assert {name for tweet in tweets(WORLD, 24, 3) for name in tweet.mentioned} == set(WORLD.names)


def test_a_rehearsal_leaves_the_first_half_of_the_celebrities_to_the_storm() -> None:
    written = rehearsal(WORLD, 1)
    assert {name for tweet in written for name in tweet.mentioned} == set(WORLD.names[6:])
    assert not {tweet.id for tweet in written} & {tweet.id for tweet in tweets(WORLD, 240, 1)}
    assert all(tweet.author not in tweet.mentioned for tweet in written)
    assert rehearsal(World(universe=20, followers=10, celebrities=1, seed=1), 1) == []


def test_protected_tweets_are_celebrities_own() -> None:
    protected = [tweet for tweet in tweets(WORLD, 300, 1) if tweet.protected]
    assert protected
    assert {tweet.author for tweet in protected} <= set(WORLD.names)


def test_the_same_letter_is_the_same_event() -> None:
    [one, *_] = tweets(WORLD, 10, 1)
    assert letter([one]) == letter([one])
    assert json.loads(letter([one])[0])["id"] == one.id


def test_faults_strike_within_the_storm_each_as_often_as_the_others() -> None:
    faults = schedule(list(STRIKES), seed=5, lasting=10.0)
    assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
    assert all(0 <= fault.at <= 10 for fault in faults)
    assert {kind: sum(fault.kind == kind for fault in faults) for kind in STRIKES} == dict.fromkeys(STRIKES, 2)


def test_the_store_goes_away_early_in_each_half_of_a_storm_and_is_back_within_it() -> None:
    script = CheckPlan(
        data=Path(),
        world=WORLD,
        mentions=10,
        threshold=1_000,
        collapse=None,
        seed=5,
        faults=[STORE_OUTAGE],
        outage=600.0,
    )
    first, second = schedule(script.faults, script.seed, script.lasting)
    assert (first.gone, second.gone) == (False, True)
    assert 0 < first.at < first.at + 600 < script.lasting / 2 < second.at < second.at + 600 < script.lasting


def test_a_demo_takes_the_names_of_all_faults_that_there_are() -> None:
    assert set(KINDS) == set(STRIKES)
    assert set(OF_A_CLUSTER) == set(STRIKES_ON_ENGINES)


def test_the_sample_has_people_of_every_class() -> None:
    world = World(universe=2_000_000, followers=1_000_000, celebrities=12, seed=1)
    kinds = [person.kind for person in sample(world, seed=1)]
    assert len(kinds) > 40
    assert {"vip", "idle vip", "dormant", "muted", "non-follower", "active in 24 h", "celebrity"} <= set(kinds)

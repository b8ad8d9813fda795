"""Generated traffic and faults are determined by the seed and have the requested size."""

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.cli.commands.demo import CLUSTER_FAULT_KINDS, FAULT_KINDS
from notifier.devkit.check.check_run import CheckPlan
from notifier.devkit.check.fault_injection import ENGINE_INJECTIONS, INJECTIONS, STORE_OUTAGE, schedule
from notifier.devkit.check.mention_storm import request_body, tweets, warm_up_tweets
from notifier.devkit.fixture.sample_users_and_devices import sample
from notifier.devkit.fixture.world import World

WORLD = World(universe=20_000, followers=10_000, celebrities=12, seed=1)


@given(st.integers(1, 300), st.integers(0, 99))
@settings(max_examples=30)
def test_traffic_has_the_requested_mentions_and_no_self_mention(mentions: int, seed: int) -> None:
    generated = tweets(WORLD, mentions, seed)
    assert sum(len(tweet.mentioned) for tweet in generated) == mentions
    assert all(tweet.author not in tweet.mentioned for tweet in generated)
    assert len({tweet.id for tweet in generated}) == len(generated)
    assert generated == tweets(WORLD, mentions, seed)


def test_every_celebrity_is_mentioned_if_there_are_enough() -> None:
    assert {name for tweet in tweets(WORLD, 24, 3) for name in tweet.mentioned} == set(WORLD.names)


def test_warm_up_mentions_only_second_half_of_celebrities() -> None:
    generated = warm_up_tweets(WORLD, 1)
    assert {name for tweet in generated for name in tweet.mentioned} == set(WORLD.names[6:])
    assert not {tweet.id for tweet in generated} & {tweet.id for tweet in tweets(WORLD, 240, 1)}
    assert all(tweet.author not in tweet.mentioned for tweet in generated)
    assert warm_up_tweets(World(universe=20, followers=10, celebrities=1, seed=1), 1) == []


def test_protected_tweets_are_written_by_celebrities() -> None:
    protected = [tweet for tweet in tweets(WORLD, 300, 1) if tweet.protected]
    assert protected
    assert {tweet.author for tweet in protected} <= set(WORLD.names)


def test_same_tweet_gives_the_same_event() -> None:
    [tweet, *_] = tweets(WORLD, 10, 1)
    assert request_body([tweet]) == request_body([tweet])
    assert json.loads(request_body([tweet])[0])["id"] == tweet.id


def test_faults_are_spread_evenly_over_the_storm() -> None:
    faults = schedule(list(INJECTIONS), seed=5, duration=10.0)
    assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
    assert all(0 <= fault.at <= 10 for fault in faults)
    assert {kind: sum(fault.kind == kind for fault in faults) for kind in INJECTIONS} == dict.fromkeys(INJECTIONS, 2)


def test_store_outage_begins_and_ends_within_each_half() -> None:
    plan = CheckPlan(
        data=Path(),
        world=WORLD,
        mentions=10,
        threshold=1_000,
        collapse=None,
        seed=5,
        faults=[STORE_OUTAGE],
        outage=600.0,
    )
    first, second = schedule(plan.faults, plan.seed, plan.duration)
    assert (first.kills_store, second.kills_store) == (False, True)
    assert 0 < first.at < first.at + 600 < plan.duration / 2 < second.at < second.at + 600 < plan.duration


def test_demo_accepts_every_fault_name() -> None:
    assert set(FAULT_KINDS) == set(INJECTIONS)
    assert set(CLUSTER_FAULT_KINDS) == set(ENGINE_INJECTIONS)


def test_sample_has_users_of_every_kind() -> None:
    world = World(universe=2_000_000, followers=1_000_000, celebrities=12, seed=1)
    kinds = [person.user_class for person in sample(world, seed=1)]
    assert len(kinds) > 40
    assert {"vip", "idle vip", "dormant", "muted", "non-follower", "active in 24 h", "celebrity"} <= set(kinds)

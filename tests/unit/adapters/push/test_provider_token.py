"""Apple's token of who sends: its age, its signature, and when there is another one."""

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import jwt
from hypothesis import given
from hypothesis import strategies as st

from notifier.adapters.push import AppleKey, ProviderTokens
from tests.support.examples import NOON
from tests.support.push_credentials import KEY_ID, TEAM_ID, apple_key, pem

MINUTES = timedelta(minutes=1)
KEY = AppleKey.read(pem(apple_key()), key_id=KEY_ID, team_id=TEAM_ID)


def claims(token: str) -> dict[str, Any]:
    return dict(jwt.decode(token, apple_key().public_key(), algorithms=["ES256"], options={"verify_iat": False}))


def issued(token: str, now: datetime) -> timedelta:
    """Its age."""
    return timedelta(seconds=now.timestamp() - claims(token)["iat"])


def test_it_says_who_sends_and_is_signed_with_the_key() -> None:
    token = ProviderTokens(KEY).current(NOON)
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "kid": KEY_ID}
    assert claims(token) == {"iss": TEAM_ID, "iat": int(NOON.timestamp())}


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_two_processes_have_the_same_one_in_the_same_half_hour_and_never_one_that_is_older(one: int, two: int) -> None:
    first, second = (NOON + timedelta(seconds=seconds) for seconds in (one, two))
    tokens = [ProviderTokens(KEY).current(moment) for moment in (first, second)]
    assert (tokens[0] == tokens[1]) == (one // 1_800 == two // 1_800)
    assert timedelta() <= issued(tokens[0], first) < 30 * MINUTES


def test_one_process_signs_once_in_half_an_hour() -> None:
    tokens = ProviderTokens(KEY)
    assert tokens.current(NOON) is tokens.current(NOON + 29 * MINUTES)
    assert tokens.current(NOON) != tokens.current(NOON + 30 * MINUTES)


def test_after_a_refusal_there_is_a_younger_one_for_half_an_hour() -> None:
    tokens = ProviderTokens(KEY)
    now = NOON + 10 * MINUTES
    refused = tokens.current(now)
    assert tokens.renew(refused, now)
    fresh = tokens.current(now)
    assert issued(fresh, now) == timedelta()
    assert tokens.current(now + 29 * MINUTES) == fresh
    assert issued(tokens.current(now + 30 * MINUTES), now + 30 * MINUTES) == 10 * MINUTES


def test_whoever_was_refused_with_an_older_one_has_the_current_one() -> None:
    tokens = ProviderTokens(KEY)
    now = NOON + 10 * MINUTES
    refused = tokens.current(now)
    assert [tokens.renew(refused, now), tokens.renew(refused, now)] == [True, True]
    assert tokens.renew(tokens.current(now), now) is False


def test_there_is_no_other_within_twenty_minutes() -> None:
    tokens = ProviderTokens(KEY)
    moments = [NOON + n * MINUTES for n in range(5, 120)]
    made = [now for now in moments if tokens.renew(tokens.current(now), now)]
    assert made[0] == moments[0]
    assert all(later - sooner >= 20 * MINUTES for sooner, later in pairwise(made))


def test_on_the_half_hour_itself_there_is_no_younger_one() -> None:
    tokens = ProviderTokens(KEY)
    assert tokens.renew(tokens.current(NOON), NOON) is False


def test_a_clock_that_is_set_back_doesn_t_keep_a_token_of_the_future() -> None:
    tokens = ProviderTokens(KEY)
    later = NOON + 10 * MINUTES
    tokens.renew(tokens.current(later), later)
    assert issued(tokens.current(NOON), NOON) == timedelta()

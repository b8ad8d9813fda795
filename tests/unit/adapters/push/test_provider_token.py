"""APNs provider tokens: signature, age and renewal."""

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import jwt
from hypothesis import given
from hypothesis import strategies as st

from notifier.adapters.push import AppleKey, ProviderTokens
from tests.support.domain_examples import NOON
from tests.support.push_credentials import APPLE_KEY_ID, APPLE_TEAM_ID, apple_key, pem

MINUTES = timedelta(minutes=1)
KEY = AppleKey.read(pem(apple_key()), key_id=APPLE_KEY_ID, team_id=APPLE_TEAM_ID)


def claims(token: str) -> dict[str, Any]:
    return dict(jwt.decode(token, apple_key().public_key(), algorithms=["ES256"], options={"verify_iat": False}))


def age_of(token: str, now: datetime) -> timedelta:
    return timedelta(seconds=now.timestamp() - claims(token)["iat"])


def test_token_names_the_team_and_is_signed() -> None:
    token = ProviderTokens(KEY).current(NOON)
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "kid": APPLE_KEY_ID}
    assert claims(token) == {"iss": APPLE_TEAM_ID, "iat": int(NOON.timestamp())}


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_signers_share_one_token_per_half_hour(first_second: int, second_second: int) -> None:
    first, second = (NOON + timedelta(seconds=seconds) for seconds in (first_second, second_second))
    tokens = [ProviderTokens(KEY).current(moment) for moment in (first, second)]
    assert (tokens[0] == tokens[1]) == (first_second // 1_800 == second_second // 1_800)
    assert timedelta() <= age_of(tokens[0], first) < 30 * MINUTES


def test_token_is_signed_once_per_half_hour() -> None:
    tokens = ProviderTokens(KEY)
    assert tokens.current(NOON) is tokens.current(NOON + 29 * MINUTES)
    assert tokens.current(NOON) != tokens.current(NOON + 30 * MINUTES)


def test_refused_token_is_replaced_for_half_an_hour() -> None:
    tokens = ProviderTokens(KEY)
    now = NOON + 10 * MINUTES
    refused = tokens.current(now)
    assert tokens.renew(refused, now)
    fresh = tokens.current(now)
    assert age_of(fresh, now) == timedelta()
    assert tokens.current(now + 29 * MINUTES) == fresh
    assert age_of(tokens.current(now + 30 * MINUTES), now + 30 * MINUTES) == 10 * MINUTES


def test_refusal_of_an_older_token_keeps_the_current_one() -> None:
    tokens = ProviderTokens(KEY)
    now = NOON + 10 * MINUTES
    refused = tokens.current(now)
    assert [tokens.renew(refused, now), tokens.renew(refused, now)] == [True, True]
    assert tokens.renew(tokens.current(now), now) is False


def test_tokens_are_renewed_at_most_every_twenty_minutes() -> None:
    tokens = ProviderTokens(KEY)
    moments = [NOON + n * MINUTES for n in range(5, 120)]
    renewed_at = [now for now in moments if tokens.renew(tokens.current(now), now)]
    assert renewed_at[0] == moments[0]
    assert all(later - earlier >= 20 * MINUTES for earlier, later in pairwise(renewed_at))


def test_token_issued_now_cannot_be_renewed() -> None:
    tokens = ProviderTokens(KEY)
    assert tokens.renew(tokens.current(NOON), NOON) is False


def test_clock_set_back_discards_token_from_the_future() -> None:
    tokens = ProviderTokens(KEY)
    later = NOON + 10 * MINUTES
    tokens.renew(tokens.current(later), later)
    assert age_of(tokens.current(NOON), NOON) == timedelta()

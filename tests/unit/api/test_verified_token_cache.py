"""Cache of verified tokens: its memory is bounded, whatever clients send."""

from datetime import timedelta

import pytest

from notifier.api.auth import tokens as verified_tokens
from notifier.api.auth.tokens import HOLDER_BYTES, TokenHolder, VerifiedTokens
from notifier.domain.ids import UserId
from notifier.metrics import CacheCounters, Metrics
from tests.support.fakes.clock_and_nonces import START

KIM = TokenHolder(user=UserId("kim"), ends_at=START.timestamp() + 60)


@pytest.fixture
def tokens() -> VerifiedTokens:
    return VerifiedTokens(CacheCounters(Metrics().inbox_cache, "tokens"))


def test_oldest_tokens_are_evicted_when_their_text_is_too_large(
    tokens: VerifiedTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verified_tokens, "MAX_CACHE_BYTES", 2 * (HOLDER_BYTES + 1_000))
    for letter in "abc":
        tokens.remember(letter * 1_000, KIM)
    assert [tokens.holder(letter * 1_000, START) for letter in "abc"] == [None, KIM, KIM]
    assert tokens.used_bytes == 2 * (HOLDER_BYTES + 1_000)


def test_look_up_without_use_is_not_counted(tokens: VerifiedTokens) -> None:
    tokens.remember("token", KIM)
    assert [tokens.contains(token, START) for token in ("token", "other")] == [True, False]
    assert not tokens.contains("token", START + timedelta(minutes=1))
    assert (tokens.stats.hits._value.get(), tokens.stats.misses._value.get()) == (0, 0)


def test_repeated_or_expired_token_takes_no_extra_space(tokens: VerifiedTokens) -> None:
    tokens.remember("token", KIM)
    tokens.remember("token", KIM)
    assert tokens.used_bytes == HOLDER_BYTES + len("token")
    tokens.remember("ended", TokenHolder(user=UserId("lee"), ends_at=START.timestamp()))
    assert tokens.holder("ended", START) is None
    assert tokens.used_bytes == HOLDER_BYTES + len("token")

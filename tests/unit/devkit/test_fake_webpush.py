"""The fake Web Push service refuses what real ones refuse, deterministically."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from notifier.adapters.push.jwt import base64url, es256_token
from notifier.devkit.fake_providers.behavior import FaultWindow, ProviderScript
from notifier.devkit.fake_providers.fake_browser import Browser
from notifier.devkit.fake_providers.webpush import FakePushService
from notifier.devkit.fake_providers.webpush_refusals import (
    AuthorizationFault,
    RefusalDialect,
    authorization_fault,
    refusal,
)
from notifier.ports.push import NoReply, Post, Reply
from tests.support.domain_examples import HOUR, NOON, SECOND
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.web_push_browsers import ORIGINS, WebPushSetup, device, vapid

ORIGIN = ORIGINS[RefusalDialect.GOOGLE]
CREDENTIALS = vapid()


@pytest.fixture
def web_push() -> WebPushSetup:
    return WebPushSetup()


def sent_post(web_push: WebPushSetup, browser: Browser) -> Post:
    """Send an alert and return its request."""
    web_push.send(device(browser))
    return web_push.posts[-1]


def with_headers(post: Post, **headers: str | None) -> Post:
    unchanged = {name: value for name, value in post.headers if name not in {n.replace("_", "-") for n in headers}}
    replaced = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
    return replace(post, headers=[*unchanged.items(), *replaced.items()])


def status(answer: Reply | NoReply) -> int:
    assert isinstance(answer, Reply)
    return answer.status


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 201),
        ({"ttl": None}, 400),
        ({"ttl": ""}, 400),
        ({"ttl": "-1"}, 400),
        ({"ttl": "1.5"}, 400),
        ({"ttl": "2592001"}, 400),
        ({"topic": None}, 201),
        ({"topic": "a" * 33}, 400),
        ({"topic": "neue-angebote"}, 400),
        ({"topic": "neueangebote"}, 201),
        ({"topic": "no spaces!!!"}, 400),
        ({"urgency": None}, 201),
        ({"urgency": "very-high"}, 400),
        ({"content_encoding": "aesgcm"}, 400),
        ({"content_encoding": None}, 400),
        ({"authorization": None}, 403),
        ({"authorization": "Bearer x"}, 403),
    ],
)
def test_invalid_headers_are_refused(web_push: WebPushSetup, headers: dict[str, str | None], expected: int) -> None:
    post = sent_post(web_push, web_push.browser())
    assert status(web_push.answer(with_headers(post, **headers))) == expected


def test_body_above_4096_bytes_is_refused(web_push: WebPushSetup) -> None:
    post = sent_post(web_push, web_push.browser())
    assert status(web_push.answer(replace(post, body=bytes(4096)))) == 201
    assert status(web_push.answer(replace(post, body=bytes(4097)))) == 413


def test_unreadable_message_is_accepted_and_discarded(web_push: WebPushSetup) -> None:
    """A real push service can't decrypt the message either, and reports no error."""
    browser = web_push.browser()
    post = sent_post(web_push, browser)
    assert status(web_push.answer(replace(post, body=post.body[:-1] + bytes([post.body[-1] ^ 1])))) == 201
    assert (browser.unreadable_count, web_push.phone(browser).alert_count) == (1, 1)


def test_message_for_another_browser_is_not_shown(web_push: WebPushSetup) -> None:
    first, second = web_push.browser(), web_push.browser()
    post = sent_post(web_push, first)
    web_push.answer(replace(post, path=second.endpoint.removeprefix(ORIGIN)))
    assert (second.unreadable_count, web_push.phone(second).alert_count) == (1, 0)


def test_request_to_another_origin_is_not_found(web_push: WebPushSetup) -> None:
    service = web_push.services[RefusalDialect.GOOGLE]
    post = sent_post(web_push, web_push.browser())
    assert status(service.answer(replace(post, origin="https://fcm.googleapis.com:8443"))) == 404


def authorized(
    change: Callable[[dict[str, str | int]], object], key: ec.EllipticCurvePrivateKey = CREDENTIALS.key
) -> str:
    claims: dict[str, str | int] = {
        "aud": ORIGIN,
        "exp": int((NOON + HOUR).timestamp()),
        "sub": "mailto:ops@example.org",
    }
    change(claims)
    return f"vapid t={es256_token(key, {'typ': 'JWT', 'alg': 'ES256'}, claims)}, k={CREDENTIALS.public_key}"


@pytest.mark.parametrize(
    ("change", "expected_fault"),
    [
        (lambda claims: None, None),
        (lambda claims: claims.update(aud=ORIGIN + "/"), AuthorizationFault.WRONG_AUDIENCE),
        (lambda claims: claims.update(aud=ORIGIN + ":443"), AuthorizationFault.WRONG_AUDIENCE),
        (lambda claims: claims.update(aud="https://web.push.apple.com"), AuthorizationFault.WRONG_AUDIENCE),
        (lambda claims: claims.pop("aud"), AuthorizationFault.WRONG_AUDIENCE),
        (lambda claims: claims.update(exp=int(NOON.timestamp())), AuthorizationFault.WRONG_EXPIRY),
        (lambda claims: claims.update(exp=int((NOON + timedelta(hours=24)).timestamp())), None),
        (
            lambda claims: claims.update(exp=int((NOON + timedelta(hours=24)).timestamp()) + 1),
            AuthorizationFault.WRONG_EXPIRY,
        ),
        (lambda claims: claims.update(exp=str(int((NOON + HOUR).timestamp()))), AuthorizationFault.WRONG_EXPIRY),
        (lambda claims: claims.pop("exp"), AuthorizationFault.WRONG_EXPIRY),
        (lambda claims: claims.pop("sub"), AuthorizationFault.WRONG_SUBJECT),
        (lambda claims: claims.update(sub="ops@example.org"), AuthorizationFault.WRONG_SUBJECT),
        (lambda claims: claims.update(sub="mailto:ops@localhost"), AuthorizationFault.WRONG_SUBJECT),
        (lambda claims: claims.update(sub="mailto:<ops@example.org>"), AuthorizationFault.WRONG_SUBJECT),
        (lambda claims: claims.update(sub="https://localhost"), AuthorizationFault.WRONG_SUBJECT),
        (lambda claims: claims.update(sub="https://example.org/push"), None),
    ],
)
def test_each_claim_of_the_token_is_checked(
    change: Callable[[dict[str, str | int]], object], expected_fault: AuthorizationFault | None
) -> None:
    assert authorization_fault(authorized(change), ORIGIN, CREDENTIALS.public_key, NOON) == expected_fault


def test_signature_and_key_of_the_token_are_checked() -> None:
    valid, foreign = authorized(lambda claims: None), vapid(number=8)
    assert authorization_fault(valid, ORIGIN, foreign.public_key, NOON) is AuthorizationFault.OTHER_KEY
    assert (
        authorization_fault(authorized(lambda claims: None, foreign.key), ORIGIN, CREDENTIALS.public_key, NOON)
        is AuthorizationFault.WRONG_SIGNATURE
    )
    assert (
        authorization_fault(
            valid.replace(CREDENTIALS.public_key, base64url(bytes(65))), ORIGIN, CREDENTIALS.public_key, NOON
        )
        is AuthorizationFault.MALFORMED
    )
    assert authorization_fault(None, ORIGIN, CREDENTIALS.public_key, NOON) is AuthorizationFault.MISSING
    assert authorization_fault("", ORIGIN, CREDENTIALS.public_key, NOON) is AuthorizationFault.MALFORMED


def test_token_of_another_algorithm_is_unreadable() -> None:
    claims = {"aud": ORIGIN, "exp": int((NOON + HOUR).timestamp()), "sub": "mailto:ops@example.org"}
    unsigned = jwt.encode(claims, key="", algorithm="none")
    shared = jwt.encode(claims, key="x" * 32, algorithm="HS256")
    for token in (unsigned, shared):
        assert (
            authorization_fault(f"vapid t={token}, k={CREDENTIALS.public_key}", ORIGIN, CREDENTIALS.public_key, NOON)
            is AuthorizationFault.MALFORMED
        )


@pytest.mark.parametrize("status_", [400, 404, 410, 413, 429, 503])
@pytest.mark.parametrize("dialect", list(RefusalDialect))
def test_refusal_has_the_format_of_its_service(dialect: RefusalDialect, status_: int) -> None:
    reply = refusal(dialect, status_)
    assert reply.status == status_
    match dialect:
        case RefusalDialect.APPLE:
            assert json.loads(reply.body)["reason"]
        case RefusalDialect.GOOGLE:
            assert reply.body.startswith(b"<HTML>")
        case RefusalDialect.MOZILLA:
            assert json.loads(reply.body)["errno"] > 100


@pytest.mark.parametrize(
    ("dialect", "expected_fault", "expected"),
    [
        (RefusalDialect.APPLE, AuthorizationFault.OTHER_KEY, (403, b"VapidPkHashMismatch")),
        (RefusalDialect.APPLE, AuthorizationFault.WRONG_EXPIRY, (403, b"BadJwtToken")),
        (RefusalDialect.GOOGLE, AuthorizationFault.OTHER_KEY, (403, b"do not correspond")),
        (RefusalDialect.GOOGLE, AuthorizationFault.WRONG_SUBJECT, (403, b"invalid JWT")),
        (RefusalDialect.MOZILLA, AuthorizationFault.OTHER_KEY, (401, b"109")),
        (RefusalDialect.MOZILLA, AuthorizationFault.MISSING, (401, b"109")),
    ],
)
def test_token_refusal_has_the_format_of_its_service(
    dialect: RefusalDialect, expected_fault: AuthorizationFault, expected: tuple[int, bytes]
) -> None:
    reply = refusal(dialect, expected_fault)
    assert reply.status == expected[0]
    assert expected[1] in reply.body


def test_scripted_shares_are_determined_by_seed() -> None:
    def run(seed: int) -> list[int]:
        web_push = WebPushSetup()
        post = sent_post(web_push, web_push.browser())
        script = ProviderScript(seed=seed, gone_share=0.02, elsewhere_share=0.1)
        service = FakePushService(clock=web_push.clock, origin=ORIGIN, dialect=RefusalDialect.GOOGLE, script=script)
        paths = [service.subscribe(CREDENTIALS.public_key).endpoint.removeprefix(ORIGIN) for _ in range(400)]
        statuses = [service.answer(replace(post, path=path)).status for path in paths]
        assert Counter(statuses) == service.response_counts
        return statuses

    first = run(1)
    assert run(1) == first != run(2)
    assert set(first) == {201, 403, 410}
    assert 2 <= first.count(410) <= 20
    assert 20 <= first.count(403) <= 70


def test_scripted_gone_browser_gets_410_and_no_alert(web_push: WebPushSetup) -> None:
    browser = web_push.browser()
    web_push.script(ProviderScript(gone_share=1.0))
    assert status(web_push.answer(sent_post(web_push, browser))) == 410
    assert web_push.phone(browser).alert_count == 0


def test_browser_keys_are_unique_and_determined_by_seed() -> None:
    def keys(seed: int) -> list[bytes]:
        service = FakePushService(clock=ManualClock(), script=ProviderScript(seed=seed))
        return [service.subscribe("k").subscription.key for _ in range(3)]

    assert keys(1) == keys(1) != keys(2)
    assert len(set(keys(1))) == 3


def test_scripted_rate_limit_reports_retry_after(web_push: WebPushSetup) -> None:
    web_push.script(ProviderScript(limited=FaultWindow(after=SECOND, duration=30 * SECOND)))
    post = sent_post(web_push, web_push.browser())
    assert status(web_push.answer(post)) == 201
    web_push.clock.advance(11 * SECOND)
    answer = web_push.answer(post)
    assert isinstance(answer, Reply)
    assert (answer.status, answer.headers) == (429, {"retry-after": "20"})
    web_push.clock.advance(20 * SECOND)
    assert status(web_push.answer(post)) == 201


def test_scripted_outage_returns_503(web_push: WebPushSetup) -> None:
    web_push.script(ProviderScript(down=FaultWindow(duration=SECOND)))
    assert status(web_push.answer(sent_post(web_push, web_push.browser()))) == 503


def test_scripted_redirect_is_returned(web_push: WebPushSetup) -> None:
    web_push.services[RefusalDialect.GOOGLE].redirect = "https://10.0.0.1/"
    answer = web_push.answer(sent_post(web_push, web_push.browser()))
    assert isinstance(answer, Reply)
    assert (answer.status, answer.headers) == (307, {"location": "https://10.0.0.1/"})


def test_duplicate_header_is_refused(web_push: WebPushSetup) -> None:
    post = sent_post(web_push, web_push.browser())
    assert status(web_push.answer(replace(post, headers=[*post.headers, ("ttl", "60")]))) == 400


@pytest.mark.parametrize(("ttl", "alert_count"), [("60", 1), ("0", 0)])
def test_offline_browser_gets_messages_within_their_ttl(web_push: WebPushSetup, ttl: str, alert_count: int) -> None:
    browser = web_push.browser()
    post = sent_post(web_push, web_push.browser())
    browser.is_online = False
    web_push.send(device(browser))
    post = with_headers(web_push.posts[-1], ttl=ttl)
    service = web_push.services[RefusalDialect.GOOGLE]
    service.bring_online(browser)
    browser.is_online = False
    assert status(service.answer(post)) == 201
    before = web_push.phone(browser).alert_count
    web_push.clock.advance(59 * SECOND)
    service.bring_online(browser)
    assert web_push.phone(browser).alert_count - before == alert_count

"""The fake push service refuses what the real ones refuse, in their words, and the same whenever it is asked."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from notifier.adapters.push.jwt import base64url, es256_token
from notifier.devkit.fake_providers.behaviour import FaultWindow, ProviderScript
from notifier.devkit.fake_providers.browser import Browser
from notifier.devkit.fake_providers.webpush import FakePushService
from notifier.devkit.fake_providers.webpush_refusals import AuthorizationFault, Manner, fault, refusal
from notifier.ports.push import Post, Reply, Silence
from tests.support.examples import HOUR, NOON, SECOND
from tests.support.fakes.clock import ManualClock
from tests.support.push_browsers import ORIGINS, World, device, vapid

ORIGIN = ORIGINS[Manner.GOOGLE]
OURS = vapid()


@pytest.fixture
def world() -> World:
    return World()


def sent(world: World, browser: Browser) -> Post:
    """What the sender makes of an alert, and its push service has taken."""
    world.send(device(browser))
    return world.posts[-1]


def changed(post: Post, **headers: str | None) -> Post:
    kept = {name: value for name, value in post.headers if name not in {n.replace("_", "-") for n in headers}}
    said = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
    return replace(post, headers=[*kept.items(), *said.items()])


def status(answer: Reply | Silence) -> int:
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
def test_headers_that_are_wrong_are_refused(world: World, headers: dict[str, str | None], expected: int) -> None:
    post = sent(world, world.browser())
    assert status(world.answer(changed(post, **headers))) == expected


def test_a_body_that_is_too_large_is_refused_and_the_largest_is_taken(world: World) -> None:
    post = sent(world, world.browser())
    assert status(world.answer(replace(post, body=bytes(4096)))) == 201
    assert status(world.answer(replace(post, body=bytes(4097)))) == 413


def test_what_its_browser_can_t_read_is_taken_and_thrown_away(world: World) -> None:
    """As it is: a push service can't read it either, and nobody is told."""
    browser = world.browser()
    post = sent(world, browser)
    assert status(world.answer(replace(post, body=post.body[:-1] + bytes([post.body[-1] ^ 1])))) == 201
    assert (browser.unreadable, world.phone(browser).rang) == (1, 1)


def test_a_message_for_another_browser_is_read_by_neither(world: World) -> None:
    one, other = world.browser(), world.browser()
    post = sent(world, one)
    world.answer(replace(post, path=other.endpoint.removeprefix(ORIGIN)))
    assert (other.unreadable, world.phone(other).rang) == (1, 0)


def test_a_post_to_another_origin_finds_nobody(world: World) -> None:
    service = world.services[Manner.GOOGLE]
    post = sent(world, world.browser())
    assert status(service.answer(replace(post, origin="https://fcm.googleapis.com:8443"))) == 404


def authorized(change: Callable[[dict[str, str | int]], object], key: ec.EllipticCurvePrivateKey = OURS.key) -> str:
    claims: dict[str, str | int] = {
        "aud": ORIGIN,
        "exp": int((NOON + HOUR).timestamp()),
        "sub": "mailto:ops@example.org",
    }
    change(claims)
    return f"vapid t={es256_token(key, {'typ': 'JWT', 'alg': 'ES256'}, claims)}, k={OURS.public}"


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda claims: None, None),
        (lambda claims: claims.update(aud=ORIGIN + "/"), AuthorizationFault.ELSEWHERE),
        (lambda claims: claims.update(aud=ORIGIN + ":443"), AuthorizationFault.ELSEWHERE),
        (lambda claims: claims.update(aud="https://web.push.apple.com"), AuthorizationFault.ELSEWHERE),
        (lambda claims: claims.pop("aud"), AuthorizationFault.ELSEWHERE),
        (lambda claims: claims.update(exp=int(NOON.timestamp())), AuthorizationFault.OVER),
        (lambda claims: claims.update(exp=int((NOON + timedelta(hours=24)).timestamp())), None),
        (lambda claims: claims.update(exp=int((NOON + timedelta(hours=24)).timestamp()) + 1), AuthorizationFault.OVER),
        (lambda claims: claims.update(exp=str(int((NOON + HOUR).timestamp()))), AuthorizationFault.OVER),
        (lambda claims: claims.pop("exp"), AuthorizationFault.OVER),
        (lambda claims: claims.pop("sub"), AuthorizationFault.NOBODY),
        (lambda claims: claims.update(sub="ops@example.org"), AuthorizationFault.NOBODY),
        (lambda claims: claims.update(sub="mailto:ops@localhost"), AuthorizationFault.NOBODY),
        (lambda claims: claims.update(sub="mailto:<ops@example.org>"), AuthorizationFault.NOBODY),
        (lambda claims: claims.update(sub="https://localhost"), AuthorizationFault.NOBODY),
        (lambda claims: claims.update(sub="https://example.org/push"), None),
    ],
)
def test_a_token_is_judged_by_each_of_its_claims(
    change: Callable[[dict[str, str | int]], object], wrong: AuthorizationFault | None
) -> None:
    assert fault(authorized(change), ORIGIN, OURS.public, NOON) == wrong


def test_a_token_is_judged_by_its_signature_and_its_key() -> None:
    good, other = authorized(lambda claims: None), vapid(number=8)
    assert fault(good, ORIGIN, other.public, NOON) is AuthorizationFault.OTHER_KEY
    assert fault(authorized(lambda claims: None, other.key), ORIGIN, OURS.public, NOON) is AuthorizationFault.FORGED
    assert (
        fault(good.replace(OURS.public, base64url(bytes(65))), ORIGIN, OURS.public, NOON)
        is AuthorizationFault.UNREADABLE
    )
    assert fault(None, ORIGIN, OURS.public, NOON) is AuthorizationFault.MISSING
    assert fault("", ORIGIN, OURS.public, NOON) is AuthorizationFault.UNREADABLE


def test_a_token_of_another_algorithm_is_none() -> None:
    claims = {"aud": ORIGIN, "exp": int((NOON + HOUR).timestamp()), "sub": "mailto:ops@example.org"}
    unsigned = jwt.encode(claims, key="", algorithm="none")
    shared = jwt.encode(claims, key="x" * 32, algorithm="HS256")
    for made in (unsigned, shared):
        assert fault(f"vapid t={made}, k={OURS.public}", ORIGIN, OURS.public, NOON) is AuthorizationFault.UNREADABLE


@pytest.mark.parametrize("status_", [400, 404, 410, 413, 429, 503])
@pytest.mark.parametrize("manner", list(Manner))
def test_each_refuses_in_its_own_words(manner: Manner, status_: int) -> None:
    said = refusal(manner, status_)
    assert said.status == status_
    match manner:
        case Manner.APPLE:
            assert json.loads(said.body)["reason"]
        case Manner.GOOGLE:
            assert said.body.startswith(b"<HTML>")
        case Manner.MOZILLA:
            assert json.loads(said.body)["errno"] > 100


@pytest.mark.parametrize(
    ("manner", "wrong", "expected"),
    [
        (Manner.APPLE, AuthorizationFault.OTHER_KEY, (403, b"VapidPkHashMismatch")),
        (Manner.APPLE, AuthorizationFault.OVER, (403, b"BadJwtToken")),
        (Manner.GOOGLE, AuthorizationFault.OTHER_KEY, (403, b"do not correspond")),
        (Manner.GOOGLE, AuthorizationFault.NOBODY, (403, b"invalid JWT")),
        (Manner.MOZILLA, AuthorizationFault.OTHER_KEY, (401, b"109")),
        (Manner.MOZILLA, AuthorizationFault.MISSING, (401, b"109")),
    ],
)
def test_each_refuses_a_token_in_its_own_words(
    manner: Manner, wrong: AuthorizationFault, expected: tuple[int, bytes]
) -> None:
    said = refusal(manner, wrong)
    assert said.status == expected[0]
    assert expected[1] in said.body


def test_a_script_s_shares_come_true_and_the_same_in_every_run() -> None:
    def run(seed: int) -> list[int]:
        world = World()
        post = sent(world, world.browser())
        script = ProviderScript(seed=seed, gone=0.02, elsewhere=0.1)
        service = FakePushService(clock=world.clock, origin=ORIGIN, manner=Manner.GOOGLE, script=script)
        paths = [service.subscribe(OURS.public).endpoint.removeprefix(ORIGIN) for _ in range(400)]
        answers = [service.answer(replace(post, path=path)).status for path in paths]
        assert Counter(answers) == service.answered
        return answers

    first = run(1)
    assert run(1) == first != run(2)
    assert set(first) == {201, 403, 410}
    assert 2 <= first.count(410) <= 20
    assert 20 <= first.count(403) <= 70


def test_who_is_gone_stays_gone(world: World) -> None:
    browser = world.browser()
    world.script(ProviderScript(gone=1.0))
    assert status(world.answer(sent(world, browser))) == 410
    assert world.phone(browser).rang == 0


def test_its_browsers_have_the_same_keys_in_every_run_and_each_other_ones() -> None:
    def keys(seed: int) -> list[bytes]:
        service = FakePushService(clock=ManualClock(), script=ProviderScript(seed=seed))
        return [service.subscribe("k").subscription.key for _ in range(3)]

    assert keys(1) == keys(1) != keys(2)
    assert len(set(keys(1))) == 3


def test_while_it_is_busy_it_says_for_how_long(world: World) -> None:
    world.script(ProviderScript(limited=FaultWindow(after=SECOND, lasting=30 * SECOND)))
    post = sent(world, world.browser())
    assert status(world.answer(post)) == 201
    world.clock.advance(11 * SECOND)
    answer = world.answer(post)
    assert isinstance(answer, Reply)
    assert (answer.status, answer.headers) == (429, {"retry-after": "20"})
    world.clock.advance(20 * SECOND)
    assert status(world.answer(post)) == 201


def test_while_it_is_down_it_says_so_to_everybody(world: World) -> None:
    world.script(ProviderScript(down=FaultWindow(lasting=SECOND)))
    assert status(world.answer(sent(world, world.browser()))) == 503


def test_it_sends_everybody_elsewhere_when_told_to(world: World) -> None:
    world.services[Manner.GOOGLE].redirect = "https://10.0.0.1/"
    answer = world.answer(sent(world, world.browser()))
    assert isinstance(answer, Reply)
    assert (answer.status, answer.headers) == (307, {"location": "https://10.0.0.1/"})


def test_a_header_that_comes_twice_is_refused(world: World) -> None:
    post = sent(world, world.browser())
    assert status(world.answer(replace(post, headers=[*post.headers, ("ttl", "60")]))) == 400


@pytest.mark.parametrize(("ttl", "rang"), [("60", 1), ("0", 0)])
def test_who_is_away_gets_later_what_was_to_be_kept(world: World, ttl: str, rang: int) -> None:
    browser = world.browser()
    post = sent(world, world.browser())
    browser.online = False
    world.send(device(browser))
    post = changed(world.posts[-1], ttl=ttl)
    service = world.services[Manner.GOOGLE]
    service.wake(browser)
    browser.online = False
    assert status(service.answer(post)) == 201
    before = world.phone(browser).rang
    world.clock.advance(59 * SECOND)
    service.wake(browser)
    assert world.phone(browser).rang - before == rang

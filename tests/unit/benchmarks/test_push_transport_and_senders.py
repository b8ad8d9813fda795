"""Push transport and sender benchmarks find lost, repeated and unaccepted alerts."""

import json
from base64 import urlsafe_b64decode
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.costs_and_figures import Cost, Spread
from benchmarks.push.goaway import ArrivalCount, parting, wrong
from benchmarks.push.leanest_sender import MAX_IN_FLIGHT, LeanestSender
from benchmarks.push.other_libraries import DECRYPTED_MESSAGES, RIVALS, Rival, letters
from benchmarks.push.our_senders import Place, alert, answers, devices, private, sent, subscriptions
from benchmarks.push.sample_apns_requests import posts
from benchmarks.push.sender_comparison import SendRound, figures
from notifier.adapters.http2 import Http2Transport
from notifier.devkit.fake_providers.fake_browser import decrypt
from notifier.devkit.http2.server import serving
from notifier.ports.push import NoReply, Reply

ACCEPTED = Reply(status=200)
UNKNOWN, SAFE = (NoReply(reason="cut", may_have_arrived=left) for left in (True, False))


@pytest.mark.parametrize("cuts", [False, True])
def test_transport_survives_goaway(cuts: bool) -> None:
    finding = parting(cuts=cuts).finding
    assert (finding.ok, finding.n) == (True, 3_000), finding.detail
    assert ("3,000 of 3,000 accepted" in finding.detail) == (not cuts)


@pytest.mark.parametrize(
    ("answer", "times", "cuts", "right"),
    [
        (ACCEPTED, 1, False, True),
        (ACCEPTED, 1, True, True),
        (ACCEPTED, 2, True, False),
        (ACCEPTED, 0, True, False),
        (UNKNOWN, 1, True, True),
        (UNKNOWN, 0, True, False),
        (UNKNOWN, 1, False, False),
        (SAFE, 0, True, False),
        (SAFE, 1, True, False),
    ],
)
def test_repeated_lost_or_guessed_alert_is_wrong(answer: Reply | NoReply, times: int, cuts: bool, right: bool) -> None:
    assert ([*wrong({"/a": answer}, {"/a": times}, cuts=cuts)] == []) == right


def test_unrequested_alert_is_wrong() -> None:
    assert [*wrong({}, {"/a": 1}, cuts=True)] == ["/a got a request without a result"]


def test_leanest_sender_sends_the_requested_number() -> None:
    arrived = ArrivalCount()
    with serving(arrived) as server:
        [first] = posts(server.origin, 1)
        with closing(LeanestSender(first)) as floor:
            floor.send(3 * MAX_IN_FLIGHT)
    assert arrived.paths == {first.path: 3 * MAX_IN_FLIGHT + 1}


def test_each_post_has_its_own_device_and_id() -> None:
    made = [*posts("https://push.example", 100)]
    assert len({post.path for post in made}) == len({post.headers[-1] for post in made}) == 100


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.part)
def test_sender_reports_alerts_that_are_not_accepted(rival: Rival) -> None:
    with serving(answers) as server, closing(Http2Transport(allow_plaintext=True)) as transport:
        place = Place(origin=server.origin, authority=Path())
        sender, targets = rival.sender(place, transport), devices(rival.address, place, 50)
        sent(sender, alert(), targets)
        assert server.counts.processed == 50 + (rival.part == "fcm")  # one more asked for a token
    with closing(Http2Transport(allow_plaintext=True)) as transport, pytest.raises(AssertionError, match="got RetryAt"):
        sent(rival.sender(place, transport), alert(), targets)


def took(processor: float, seconds: float = 1e-3) -> Cost:
    return Cost(seconds=seconds, processor=processor)


def test_ratio_is_per_round_against_the_cheapest_variant() -> None:
    """The ratio of the medians would be 0.2; the ratios per round give 0.1."""
    rounds = [
        SendRound(ours=took(20e-6), theirs={"one": took(200e-6), "each": took(400e-6), "async": took(1.0)}),
        SendRound(ours=took(20e-6), theirs={"one": took(900e-6), "each": took(100e-6), "async": took(1.0)}),
        SendRound(ours=took(2e-6), theirs={"one": took(50e-6), "each": took(60e-6), "async": took(1.0)}),
    ]
    [fcm] = [rival for rival in RIVALS if rival.part == "fcm"]
    us, per_s = figures(fcm, rounds)
    assert (us.finding.name, us.finding.value, us.finding.limit, us.finding.ok) == (
        "cpu_us_per_send{fcm}",
        0.1,
        0.125,
        True,
    )
    assert us.peers == Spread(min=50.0, median=100.0, max=200.0, unit="us", n=3)
    assert "20.0 us against 100 with firebase-admin" in us.finding.detail
    assert (per_s.finding.name, per_s.finding.value, per_s.finding.limit) == ("sends_per_s{fcm}", 1_000.0, None)


def test_shares_of_other_libraries_are_the_promised_ones() -> None:
    assert {rival.name: rival.share for rival in RIVALS} == {"aioapns": 5, "firebase-admin": 8, "pywebpush": 4}


def test_messages_for_other_libraries_decrypt_to_our_alert(tmp_path: Path) -> None:
    sample = alert()
    messages = letters(Place(origin="https://127.0.0.1:1", authority=tmp_path), sample)
    bodies = [urlsafe_b64decode(message["body"] + "==") for message in messages]
    read = [decrypt(body, private(n), subscriptions()[n].secret) for n, body in enumerate(bodies)]
    assert [json.loads(text)["title"] for text in read] == [sample.text] * DECRYPTED_MESSAGES
    assert {message["authorization"].partition(" ")[0] for message in messages} == {"vapid"}

"""The demo's page and buttons: there in a demo alone, for this machine alone, and each says how it is done by hand."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.plan import SetHead
from notifier.domain.ids import Kind, Subject, UserId
from tests.http.demo_house import COLLAPSE, HERE, visited
from tests.http.problems import assert_problem
from tests.support.http_app import Edge

ACTIONS = [("POST", "/demo/storm"), ("POST", "/demo/pause"), ("DELETE", "/demo/pause"), ("POST", "/demo/kill")]
ACTIONS += [("POST", "/demo/empty"), ("GET", "/demo/people"), ("GET", "/demo/phones"), ("GET", "/v1/system")]
PAUSE = {"reason": "a test", "seconds": 20}

each_action = pytest.mark.parametrize(("method", "path"), ACTIONS)


@pytest.mark.parametrize(("method", "path"), [*ACTIONS[:-1], ("GET", "/")])
def test_what_is_no_demo_has_none_of_it(edge: Edge, method: str, path: str) -> None:
    assert_problem(edge.client.request(method, path, headers=edge.service), 404, "not_found")


def test_the_page_comes_with_the_token_of_its_buttons_and_may_do_nothing_else(tmp_path: Path) -> None:
    with visited(tmp_path) as visitor:
        answer = visitor.client.get("/")
        token = visitor.key["Authorization"].removeprefix("Bearer ")
        assert f'content="{token}"' in answer.text
        assert (answer.headers["content-type"], answer.headers["cache-control"]) == (
            "text/html; charset=utf-8",
            "no-store",
        )
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "<script>" not in answer.text
        assert "style=" not in answer.text


@each_action
def test_without_the_token_nothing_is_done(tmp_path: Path, method: str, path: str) -> None:
    with visited(tmp_path) as visitor:
        assert_problem(visitor.client.request(method, path), 401, "bad_token")
        wrong = {"Authorization": "Bearer wrong"}
        assert_problem(visitor.client.request(method, path, headers=wrong), 401, "bad_token")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.7", ""])
@pytest.mark.parametrize("path", ["/", "/demo/people"])
def test_a_name_that_was_pointed_at_this_machine_opens_nothing(tmp_path: Path, path: str, host: str) -> None:
    with visited(tmp_path) as visitor:
        assert_problem(visitor.client.get(path, headers={**visitor.key, "Host": host}), 403, "forbidden")


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080"])
def test_this_machine_has_several_names(tmp_path: Path, host: str) -> None:
    with visited(tmp_path) as visitor:
        assert visitor.client.get("/demo/people", headers={**visitor.key, "Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:9999", "null", ""])
def test_another_page_may_press_no_button(tmp_path: Path, origin: str) -> None:
    with visited(tmp_path) as visitor:
        assert_problem(visitor.post("/demo/empty", Origin=origin), 403, "forbidden")
        assert visitor.post("/demo/empty", Origin=HERE).status_code == 200


@each_action
def test_another_machine_may_do_nothing_even_with_the_token(tmp_path: Path, method: str, path: str) -> None:
    with visited(tmp_path, address="10.0.0.7") as visitor:
        answer = visitor.client.request(method, path, headers=visitor.key)
        assert answer.status_code in (401, 403)


def test_the_four_people_come_with_tokens_that_open_their_inboxes(tmp_path: Path) -> None:
    with visited(tmp_path) as visitor:
        people = visitor.client.get("/demo/people", headers=visitor.key).json()["people"]
        assert [(each["kind"], each["user"]) for each in people] == [
            ("vip", "u1"),
            ("active", "u2"),
            ("occasional", "u3"),
            ("away", "bob"),
        ]
        for each in people:
            opened = visitor.client.get("/v1/inbox", headers={"Authorization": f"Bearer {each['token']}"})
            assert opened.status_code == 200


def test_celebrities_that_are_loaded_come_with_their_followers(tmp_path: Path) -> None:
    with visited(tmp_path) as visitor:
        stars = visitor.client.get("/demo/people", headers=visitor.key).json()["stars"]
        assert stars == [{"user": "nova", "followers": 3}]


def test_storm_is_refused_for_a_celebrity_that_is_not_there(tmp_path: Path) -> None:
    with visited(tmp_path) as visitor:
        assert_problem(visitor.post("/demo/storm?of=orion"), 404, "not_found")


def test_a_storm_is_accepted_as_the_tweet_service_s_events_are(tmp_path: Path) -> None:
    with visited(tmp_path) as visitor:
        done = visitor.post("/demo/storm").json()
        assert "a new burst" in done["says"]
        assert done["cli"] == f".venv/bin/notifier storm --of nova --rate 100 --for 8s --data {tmp_path}"
        assert "still going on" in visitor.post("/demo/storm").json()["says"]
        while len(visitor.house.bursts.mentions) < 11:
            visitor.client.get("/healthz")  # lets the loop turn in which the storm goes on
            visitor.house.sequence()


def test_a_storm_into_an_open_burst_says_that_nobody_is_told_twice(tmp_path: Path) -> None:
    with visited(tmp_path) as visitor:
        Edge(visitor.house, visitor.client).mention()
        assert "join the open burst, and nobody is told twice" in visitor.post("/demo/storm").json()["says"]


def test_the_budget_is_at_work_and_earns_a_storm_a_minute(tmp_path: Path) -> None:
    with visited(tmp_path) as visitor:
        edge, clock = Edge(visitor.house, visitor.client), visitor.house.clock
        nova = Subject(Kind.MENTION, UserId("nova"))
        visitor.house.sets.put_heads({nova: SetHead(total=2_000_000, counts=(3,))})
        for _ in range(8):
            edge.mention()
            clock.advance(COLLAPSE)
        says = visitor.post("/demo/storm").json()["says"]
        assert "6 fan-outs in a row were spent, and the next one is earned in 20 s" in says
        before = visitor.house.ports.heads.load([nova])[nova].seq
        for _ in range(3 * 10):
            edge.mention()
            clock.advance(COLLAPSE)
        assert visitor.house.ports.heads.load([nova])[nova].seq == before + 10


def test_a_pause_holds_p2_with_reason_and_term_and_can_be_lifted(tmp_path: Path) -> None:
    with visited(tmp_path) as visitor:
        done = visitor.post("/demo/pause", PAUSE).json()
        throttles, now = visitor.house.throttles, visitor.house.clock.now()
        [held] = throttles.since(now)
        assert (held.tier, held.rate, held.reason) == (Tier.P2, None, "a test")
        assert (held.ends_at - now).total_seconds() == 20
        assert done["cli"].startswith(".venv/bin/notifier throttle set --tier p2 --pause --for 20s --reason 'a test'")
        lifted = visitor.client.delete("/demo/pause", headers=visitor.key).json()
        assert "comes back over 30 s" in lifted["says"]
        assert held.id in lifted["cli"]
        assert not [each for each in throttles.since(now) if each.active(now)]
        again = visitor.client.delete("/demo/pause", headers=visitor.key).json()
        assert "isn't paused" in again["says"]
        assert again["cli"] == f".venv/bin/notifier throttle list --data {tmp_path}"


@pytest.mark.parametrize(
    "wrong", [{}, {"reason": ""}, {"reason": "  "}, {"reason": "r", "seconds": 0}, {"reason": "r", "seconds": 601}, []]
)
def test_a_pause_without_reason_or_end_is_refused(tmp_path: Path, wrong: object) -> None:
    with visited(tmp_path) as visitor:
        assert visitor.post("/demo/pause", wrong).status_code == 400
        assert not visitor.house.throttles.since(visitor.house.clock.now())


def test_the_worker_that_signed_last_is_killed(tmp_path: Path) -> None:
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    (tmp_path / "run" / "up").mkdir(parents=True)
    (tmp_path / "run" / "up" / "p1").write_text(str(victim.pid))
    with visited(tmp_path) as visitor:
        done = visitor.post("/demo/kill", {"role": "p1"}).json()
        assert victim.wait(10) == -signal.SIGKILL
        assert done["cli"] == f"kill -9 {victim.pid}"
        assert_problem(visitor.post("/demo/kill", {"role": "p1"}), 404, "not_found")


@pytest.mark.parametrize("role", ["up", "api", "../x", "", None, "1"])
def test_nothing_but_a_worker_is_killed(tmp_path: Path, role: object) -> None:
    (tmp_path / "run" / "up").mkdir(parents=True)
    (tmp_path / "run" / "up" / "up").write_text(str(os.getpid()))
    with visited(tmp_path) as visitor:
        assert visitor.post("/demo/kill", {"role": role}).status_code == 400


def test_our_own_redis_is_emptied_and_no_other(tmp_path: Path) -> None:
    emptied: list[bool] = []

    def empty() -> bool:
        emptied.append(True)
        return len(emptied) == 1

    with visited(tmp_path, empty=empty) as visitor:
        done = visitor.post("/demo/empty").json()
        assert "Redis was emptied" in done["says"]
        assert done["cli"] == f".venv/bin/notifier flush --data {tmp_path}"
        assert_problem(visitor.post("/demo/empty"), 503, "cache_unavailable")


def test_each_answer_s_curl_line_presses_the_same_button(tmp_path: Path) -> None:
    with visited(tmp_path) as visitor:
        line = visitor.post("/demo/pause", {"reason": "it's me", "seconds": 5}).json()["curl"]
    assert line.startswith("curl -X POST -H 'Authorization: Bearer ")
    assert line.endswith(f" {HERE}/demo/pause")
    assert """{"reason":"it'"'"'s me","seconds":5.0}""" in line

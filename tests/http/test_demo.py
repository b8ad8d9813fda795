"""The demo's page and buttons: only in a demo, and only for local callers."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.plan import FollowerCounts
from notifier.domain.ids import Kind, Subject, UserId
from tests.http.demo_client import COLLAPSE, HERE, demo_visitor
from tests.http.error_response_checks import assert_problem
from tests.support.in_memory_http_api import ApiClient

ACTIONS = [("POST", "/demo/storm"), ("POST", "/demo/pause"), ("DELETE", "/demo/pause"), ("POST", "/demo/kill")]
ACTIONS += [("POST", "/demo/empty"), ("GET", "/demo/people"), ("GET", "/demo/phones"), ("GET", "/v1/system")]
PAUSE = {"reason": "a test", "seconds": 20}

for_each_action = pytest.mark.parametrize(("method", "path"), ACTIONS)


@pytest.mark.parametrize(("method", "path"), [*ACTIONS[:-1], ("GET", "/")])
def test_demo_routes_are_missing_outside_a_demo(api_client: ApiClient, method: str, path: str) -> None:
    assert_problem(api_client.http.request(method, path, headers=api_client.service), 404, "not_found")


def test_demo_page_contains_the_token_and_a_strict_policy(tmp_path: Path) -> None:
    with demo_visitor(tmp_path) as visitor:
        response = visitor.client.get("/")
        token = visitor.key["Authorization"].removeprefix("Bearer ")
        assert f'content="{token}"' in response.text
        assert (response.headers["content-type"], response.headers["cache-control"]) == (
            "text/html; charset=utf-8",
            "no-store",
        )
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "<script>" not in response.text
        assert "style=" not in response.text


@for_each_action
def test_action_without_token_is_rejected(tmp_path: Path, method: str, path: str) -> None:
    with demo_visitor(tmp_path) as visitor:
        assert_problem(visitor.client.request(method, path), 401, "bad_token")
        wrong = {"Authorization": "Bearer wrong"}
        assert_problem(visitor.client.request(method, path, headers=wrong), 401, "bad_token")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.7", ""])
@pytest.mark.parametrize("path", ["/", "/demo/people"])
def test_foreign_host_name_is_rejected(tmp_path: Path, path: str, host: str) -> None:
    with demo_visitor(tmp_path) as visitor:
        assert_problem(visitor.client.get(path, headers={**visitor.key, "Host": host}), 403, "forbidden")


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080"])
def test_local_host_names_are_accepted(tmp_path: Path, host: str) -> None:
    with demo_visitor(tmp_path) as visitor:
        assert visitor.client.get("/demo/people", headers={**visitor.key, "Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:9999", "null", ""])
def test_action_from_another_origin_is_rejected(tmp_path: Path, origin: str) -> None:
    with demo_visitor(tmp_path) as visitor:
        assert_problem(visitor.post("/demo/empty", Origin=origin), 403, "forbidden")
        assert visitor.post("/demo/empty", Origin=HERE).status_code == 200


@for_each_action
def test_action_from_another_machine_is_rejected(tmp_path: Path, method: str, path: str) -> None:
    with demo_visitor(tmp_path, address="10.0.0.7") as visitor:
        response = visitor.client.request(method, path, headers=visitor.key)
        assert response.status_code in (401, 403)


def test_demo_people_have_tokens_for_their_inboxes(tmp_path: Path) -> None:
    with demo_visitor(tmp_path) as visitor:
        people = visitor.client.get("/demo/people", headers=visitor.key).json()["people"]
        assert [(person["kind"], person["user"]) for person in people] == [
            ("vip", "u1"),
            ("active", "u2"),
            ("occasional", "u3"),
            ("away", "bob"),
        ]
        for person in people:
            page = visitor.client.get("/v1/inbox", headers={"Authorization": f"Bearer {person['token']}"})
            assert page.status_code == 200


def test_demo_people_list_the_loaded_celebrities(tmp_path: Path) -> None:
    with demo_visitor(tmp_path) as visitor:
        stars = visitor.client.get("/demo/people", headers=visitor.key).json()["stars"]
        assert stars == [{"user": "nova", "followers": 3}]


def test_storm_for_an_unknown_celebrity_is_refused(tmp_path: Path) -> None:
    with demo_visitor(tmp_path) as visitor:
        assert_problem(visitor.post("/demo/storm?of=orion"), 404, "not_found")


def test_storm_sends_its_mentions_through_the_gateway(tmp_path: Path) -> None:
    with demo_visitor(tmp_path) as visitor:
        response = visitor.post("/demo/storm").json()
        assert "a new burst" in response["message"]
        assert response["cli"] == f".venv/bin/notifier storm --of nova --rate 100 --for 8s --data {tmp_path}"
        assert "still running" in visitor.post("/demo/storm").json()["message"]
        while len(visitor.backend.bursts.mentions) < 11:
            visitor.client.get("/healthz")  # the storm goes on in the event loop, which only runs during a request
            visitor.backend.sequence()


def test_storm_into_an_open_burst_says_that_it_joins(tmp_path: Path) -> None:
    with demo_visitor(tmp_path) as visitor:
        ApiClient(visitor.backend, visitor.client).mention()
        assert "join the open burst, and no follower is notified again" in visitor.post("/demo/storm").json()["message"]


def test_demo_budget_is_spent_and_refills(tmp_path: Path) -> None:
    with demo_visitor(tmp_path) as visitor:
        api_client, clock = ApiClient(visitor.backend, visitor.client), visitor.backend.clock
        nova = Subject(Kind.MENTION, UserId("nova"))
        visitor.backend.sets.put_follower_counts({nova: FollowerCounts(total=2_000_000, by_shard=(3,))})
        for _ in range(8):
            api_client.mention()
            clock.advance(COLLAPSE)
        says = visitor.post("/demo/storm").json()["message"]
        assert "6 fan-outs in a row were spent, and the next one is available in 20 s" in says
        before = visitor.backend.ports.heads.load([nova])[nova].seq
        for _ in range(3 * 10):
            api_client.mention()
            clock.advance(COLLAPSE)
        assert visitor.backend.ports.heads.load([nova])[nova].seq == before + 10


def test_pause_throttles_p2_until_it_is_lifted(tmp_path: Path) -> None:
    with demo_visitor(tmp_path) as visitor:
        result = visitor.post("/demo/pause", PAUSE).json()
        throttles, now = visitor.backend.throttles, visitor.backend.clock.now()
        [throttle] = throttles.ending_after(now)
        assert (throttle.tier, throttle.rate, throttle.reason) == (Tier.P2, None, "a test")
        assert (throttle.ends_at - now).total_seconds() == 20
        assert result["cli"].startswith(".venv/bin/notifier throttle set --tier p2 --pause --for 20s --reason 'a test'")
        result = visitor.client.delete("/demo/pause", headers=visitor.key).json()
        assert "resumes over 30 s" in result["message"]
        assert result["cli"] == f".venv/bin/notifier throttle lift p2 --data {tmp_path}"
        assert not [throttle for throttle in throttles.ending_after(now) if throttle.is_active(now)]
        second_response = visitor.client.delete("/demo/pause", headers=visitor.key).json()
        assert "is neither paused nor slowed" in second_response["message"]
        assert second_response["cli"] == f".venv/bin/notifier throttle list --data {tmp_path}"


def test_lift_ends_all_throttles_of_p2(tmp_path: Path) -> None:
    with demo_visitor(tmp_path) as visitor:
        for _ in range(2):
            visitor.post("/demo/pause", PAUSE)
        result = visitor.client.delete("/demo/pause", headers=visitor.key).json()
        throttles, now = visitor.backend.throttles, visitor.backend.clock.now()
        assert not [throttle for throttle in throttles.ending_after(now) if throttle.is_active(now)]
        assert result["cli"] == f".venv/bin/notifier throttle lift p2 --data {tmp_path}"


@pytest.mark.parametrize(
    "wrong", [{}, {"reason": ""}, {"reason": "  "}, {"reason": "r", "seconds": 0}, {"reason": "r", "seconds": 601}, []]
)
def test_pause_without_reason_or_valid_duration_is_refused(tmp_path: Path, wrong: object) -> None:
    with demo_visitor(tmp_path) as visitor:
        assert visitor.post("/demo/pause", wrong).status_code == 400
        assert not visitor.backend.throttles.ending_after(visitor.backend.clock.now())


def test_kill_ends_the_worker_in_the_pid_file(tmp_path: Path) -> None:
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    (tmp_path / "run" / "up").mkdir(parents=True)
    (tmp_path / "run" / "up" / "p1").write_text(str(victim.pid))
    with demo_visitor(tmp_path) as visitor:
        response = visitor.post("/demo/kill", {"role": "p1"}).json()
        assert victim.wait(10) == -signal.SIGKILL
        assert response["cli"] == f"kill -9 {victim.pid}"
        assert_problem(visitor.post("/demo/kill", {"role": "p1"}), 404, "not_found")


@pytest.mark.parametrize("role", ["up", "api", "../x", "", None, "1"])
def test_kill_refuses_everything_but_workers(tmp_path: Path, role: object) -> None:
    (tmp_path / "run" / "up").mkdir(parents=True)
    (tmp_path / "run" / "up" / "up").write_text(str(os.getpid()))
    with demo_visitor(tmp_path) as visitor:
        assert visitor.post("/demo/kill", {"role": role}).status_code == 400


def test_empty_flushes_only_our_own_redis(tmp_path: Path) -> None:
    emptied: list[bool] = []

    def empty() -> bool:
        emptied.append(True)
        return len(emptied) == 1

    with demo_visitor(tmp_path, empty=empty) as visitor:
        response = visitor.post("/demo/empty").json()
        assert "Redis was flushed" in response["message"]
        assert response["cli"] == f".venv/bin/notifier flush --data {tmp_path}"
        assert_problem(visitor.post("/demo/empty"), 503, "cache_unavailable")


def test_curl_line_of_a_response_repeats_the_action(tmp_path: Path) -> None:
    with demo_visitor(tmp_path) as visitor:
        line = visitor.post("/demo/pause", {"reason": "it's me", "seconds": 5}).json()["curl"]
    assert line.startswith("curl -X POST -H 'Authorization: Bearer ")
    assert line.endswith(f" {HERE}/demo/pause")
    assert """{"reason":"it'"'"'s me","seconds":5.0}""" in line

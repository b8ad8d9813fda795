"""`log_down_503`: the broker dies. Events are rejected quickly with a reason, and a retry succeeds."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from benchmarks.chaos.scenario_stage import Stage
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.devkit.check.mention_storm import Tweet, request_body

NAME = "log_down_503"
OUTAGE_SECONDS = 10.0
ANSWER_LIMIT_SECONDS = 4.0
"""Seconds: 3 for the log's timeout, and one for a busy machine."""
RECOVERY_TIMEOUT_SECONDS = 60.0
EVENTS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class EventResponse:
    status: int
    headers: Mapping[str, str]
    body: Any
    seconds: float


def run(stage: Stage, *, quick: bool) -> Finding:
    """Send half of the events while the log is down, and all of them once it is back."""
    stage.send(3)  # connects the API, as in normal operation
    new_tweets = stage.new_tweets(EVENTS)
    striking = Thread(target=lambda: stage.engines.kill("kafka", OUTAGE_SECONDS))
    striking.start()
    while stage.engines.fleet.is_running("kafka"):
        time.sleep(0.05)
    wrong: list[str] = []
    for tweet in new_tweets[:3]:
        wrong += wrong_refusal(post(stage, tweet))
    striking.join()
    for tweet in new_tweets:
        wrong += _taken(stage, tweet)
    return no_errors(NAME, wrong + stage.wrong(), n=len(new_tweets))


def wrong_refusal(response: EventResponse) -> list[str]:
    code = response.body.get("code") if isinstance(response.body, dict) else None
    wrong = []
    if (response.status, code) != (503, "log_unavailable"):
        wrong.append(f"answered with {response.status} {response.body}")
    elif not response.headers.get("retry-after", "").isdigit():
        wrong.append("the rejection has no valid Retry-After header")
    if response.seconds > ANSWER_LIMIT_SECONDS:
        wrong.append(f"rejected after {response.seconds:.1f} s")
    return wrong


def _taken(stage: Stage, tweet: Tweet) -> list[str]:
    """Send the event until it is accepted. A claim left behind by the failed attempt would reject it as a duplicate."""
    deadline = time.monotonic() + RECOVERY_TIMEOUT_SECONDS
    while (response := post(stage, tweet)).status != 202:
        if time.monotonic() > deadline:
            return [f"{tweet.id} is not accepted after the outage: {response.status} {response.body}"]
        time.sleep(0.2)
    stage.accepted.append(tweet)
    return [] if response.body.get("status") == "accepted" else [f"{tweet.id} was answered with {response.body}"]


def post(stage: Stage, tweet: Tweet) -> EventResponse:
    body, kind = request_body([tweet])
    place, began = urlsplit(stage.instance.url), time.monotonic()
    connection = HTTPConnection(place.hostname or "", place.port, timeout=15)
    try:
        connection.request(
            "POST",
            "/v1/events",
            body,
            {"Authorization": f"Bearer {stage.instance.service_key}", "Content-Type": kind},
        )
        answer = connection.getresponse()
        content = answer.read()
    except (OSError, HTTPException) as error:
        return EventResponse(status=0, headers={}, body=str(error), seconds=time.monotonic() - began)
    finally:
        connection.close()
    headers = {name.lower(): value for name, value in answer.getheaders()}
    return EventResponse(
        status=answer.status, headers=headers, body=json.loads(content or b"null"), seconds=time.monotonic() - began
    )

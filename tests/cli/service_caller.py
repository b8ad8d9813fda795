"""HTTP calls of the tweet service and of a user to a running notifier."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx

from notifier.cli.commands.send_events import mention_event as event
from notifier.cli.running_service import Ready

ANSWERS_WITHIN = 10.0
"""Seconds. A slower answer counts as none."""


@dataclass(frozen=True, slots=True)
class Caller:
    http: httpx.Client
    service_key: str
    user_token: str

    def post(self, id: str, mentioned: str = "nova") -> httpx.Response:
        body = json.dumps(event(id, "u5", (mentioned,), text="hi", protected=False, now=datetime.now(UTC)))
        headers = {**_bearer(self.service_key), "Content-Type": "application/cloudevents+json"}
        return self.http.post("/v1/events", content=body, headers=headers)

    def post_is_accepted(self, id: str) -> bool:
        return self.post(id).status_code == 202

    def inbox(self) -> httpx.Response:
        return self.http.get("/v1/inbox", headers=_bearer(self.user_token))

    def metrics(self) -> httpx.Response:
        return self.http.get("/metrics", headers=_bearer(self.service_key))

    def is_finished(self, id: str) -> bool:
        """Return whether every slice of every burst of the event is done, and at least one user was reached."""
        response = self.http.get(f"/v1/events/{id}", headers=_bearer(self.service_key))
        if response.status_code != 200:
            return False
        bursts = [burst for account in response.json()["accounts"] for burst in account["bursts"]]
        tiers = [tier for burst in bursts for tier in burst["tiers"].values()]
        return any(tier["people"] for tier in tiers) and {tier["state"] for tier in tiers} == {"done"}

    def cache(self) -> str:
        """Return the state of the cache as `/readyz` reports it."""
        return str(self.http.get("/readyz").json()["cache"])


@contextmanager
def calling(ready: Ready, user_token: str) -> Iterator[Caller]:
    with httpx.Client(base_url=ready.url, timeout=ANSWERS_WITHIN) as http:
        yield Caller(http, ready.service_key, user_token)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}

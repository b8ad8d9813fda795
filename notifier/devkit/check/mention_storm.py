"""Storm of mentions: generates tweets from a seed, and sends them with retries."""

import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from queue import Empty, SimpleQueue

from notifier.devkit.check.http_client import HttpClient
from notifier.devkit.check.notifier_and_engine_processes import Instance
from notifier.devkit.fixture.world import FIRST_CELEBRITY_NAMES, World, user
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import MENTIONED_TYPE

SOURCE = "storm"
EVENT_CONTENT_TYPE = "application/cloudevents+json"
BATCH_CONTENT_TYPE = "application/cloudevents-batch+json"

SENDER_THREADS = 4
PROTECTED_SHARE = 1 / 12
"""Share of tweets by protected celebrities. Worlds with one celebrity, or with more than 16, have none."""
SECOND_MENTION_SHARE = 1 / 8
"""Share of tweets that mention a second account."""
ACCEPT_TIMEOUT_SECONDS = 60.0
"""Time limit of the retries of a request. A killed process restarts within a few seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tweet:
    id: str
    author: UserId
    mentioned: tuple[UserId, ...]
    protected: bool

    def event(self) -> dict[str, object]:
        """Return the tweet as a CloudEvent. The time is fixed, so that a repeated event is the same."""
        names = " ".join(f"@{name}" for name in self.mentioned)
        data = {
            "tweet": f"tweet-{self.id}",
            "author": self.author,
            "mentions": list(self.mentioned),
            "text": f"have you seen {names}?",
            "protected": self.protected,
        }
        return {
            "specversion": "1.0",
            "type": MENTIONED_TYPE,
            "source": SOURCE,
            "id": self.id,
            "time": _EVENT_TIME,
            "data": data,
        }


_EVENT_TIME = datetime.now(UTC).isoformat()


WARM_UP_SECONDS = 10.0
"""Duration of the warm-up, after which engines have their usual latency."""
WARM_UP_TWEET_COUNT = 200
"""Number of tweets in the warm-up, at the rate of a storm."""


def warm_up_tweets(world: World, seed: int) -> list[Tweet]:
    """Return warm-up tweets. They mention only half of the celebrities; the others keep their fan-out budgets."""
    rng = random.Random(seed)
    mentionable = world.names[world.celebrities - world.celebrities // 2 :]
    mentioned = [mentionable[number % len(mentionable)] for number in range(WARM_UP_TWEET_COUNT if mentionable else 0)]
    authors = [user(rng.randrange(world.universe)) for _ in mentioned]
    return [
        Tweet(id=f"{seed}-before-{number}", author=author, mentioned=(name,), protected=False)
        for number, (name, author) in enumerate(zip(mentioned, authors, strict=True))
    ]


def tweets(world: World, mentions: int, seed: int) -> list[Tweet]:
    """Return shuffled tweets with `mentions` mentions in total, of every celebrity if there are enough mentions."""
    rng = random.Random(seed)
    named: list[list[UserId]] = []
    remaining = mentions
    while remaining:
        first = world.names[len(named)] if len(named) < world.celebrities else rng.choice(world.names)
        second = rng.choice(world.names)
        has_second = remaining > 1 and second != first and rng.random() < SECOND_MENTION_SHARE
        named.append([first, second] if has_second else [first])
        remaining -= len(named[-1])
    rng.shuffle(named)
    return [_tweet(world, rng, f"{seed}-{i}", names) for i, names in enumerate(named)]


def _tweet(world: World, rng: random.Random, id: str, named: Sequence[UserId]) -> Tweet:
    unmentioned = (
        [name for name in world.names if name not in named] if world.celebrities <= len(FIRST_CELEBRITY_NAMES) else []
    )
    protected = bool(unmentioned) and rng.random() < PROTECTED_SHARE
    author = rng.choice(unmentioned) if protected else user(rng.randrange(world.universe))
    return Tweet(id=id, author=author, mentioned=tuple(named), protected=protected)


@dataclass(slots=True, kw_only=True)
class SentEvents:
    """Results of the events that were sent so far."""

    accepted: list[Tweet] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Events that the service refused, or whose retries took too long, each with the response."""
    latencies: list[float] = field(default_factory=list)
    """Seconds of every request with a 202 response."""
    retry_count: int = 0
    ended_at: float = 0.0
    """End of the storm, as time of the monotonic clock."""


@dataclass(slots=True, kw_only=True)
class Storm:
    """Sends tweets to an instance at a constant rate, with several threads."""

    instance: Instance
    tweets: Sequence[Tweet]
    duration: float
    """Duration of the storm in seconds."""
    batch_size: int = 1
    """Events per batch. Above 1, every third request is a batch, and with more than 1,000 tweets every request."""
    sent: SentEvents = field(default_factory=SentEvents)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> SentEvents:
        queue: SimpleQueue[tuple[float, Sequence[Tweet]]] = SimpleQueue()
        started, sent_count = time.monotonic(), 0
        for bundle in self._bundles():
            queue.put((started + self.duration * sent_count / len(self.tweets), bundle))
            sent_count += len(bundle)
        senders = [threading.Thread(target=self._send_all, args=(queue,), daemon=True) for _ in range(SENDER_THREADS)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join(self.duration + 2 * ACCEPT_TIMEOUT_SECONDS)
        self.sent.ended_at = time.monotonic()
        return self.sent

    def _bundles(self) -> Iterator[Sequence[Tweet]]:
        start, number = 0, 0
        while start < len(self.tweets):
            is_batch = self.batch_size > 1 and (number % 3 == 2 or len(self.tweets) > 1000)
            size = self.batch_size if is_batch else 1
            yield self.tweets[start : start + size]
            start, number = start + size, number + 1

    def _send_all(self, queue: "SimpleQueue[tuple[float, Sequence[Tweet]]]") -> None:
        client = HttpClient(url=self.instance.url, bearer=self.instance.service_key)
        while True:
            try:
                send_at, bundle = queue.get_nowait()
            except Empty:
                return client.close()
            time.sleep(max(0.0, send_at - time.monotonic()))
            self._send(client, bundle)

    def _send(self, client: HttpClient, bundle: Sequence[Tweet]) -> None:
        body, content_type = request_body(bundle)
        deadline = time.monotonic() + ACCEPT_TIMEOUT_SECONDS
        while True:
            response = client.post("/v1/events", body, content_type)
            with self._lock:
                if response.status == 202:
                    return self._record(bundle, response.body, response.seconds)
                if response.status not in (0, 500, 502, 503, 507) or time.monotonic() > deadline:
                    self.sent.refused += [f"{tweet.id}: {response.status} {response.body}" for tweet in bundle]
                    return None
                self.sent.retry_count += 1
            time.sleep(0.1)

    def _record(self, bundle: Sequence[Tweet], body: object, seconds: float) -> None:
        self.sent.latencies.append(seconds)
        results = body["results"] if isinstance(body, dict) and "results" in body else [body]
        for tweet, result in zip(bundle, results, strict=True):
            if isinstance(result, dict) and result.get("status") in ("accepted", "duplicate"):
                self.sent.accepted.append(tweet)
            else:
                self.sent.refused.append(f"{tweet.id}: {result}")


def request_body(bundle: Sequence[Tweet]) -> tuple[bytes, str]:
    if len(bundle) == 1:
        return json.dumps(bundle[0].event()).encode(), EVENT_CONTENT_TYPE
    return json.dumps([tweet.event() for tweet in bundle]).encode(), BATCH_CONTENT_TYPE

"""A tiny tweet service that sends the @mentions of its tweets to the notifier.

notifier fixture && notifier up         # in one terminal
python examples/tweet_service.py        # in another
curl -d '{"author": "u7", "text": "hello @nova"}' http://127.0.0.1:8090/tweets
"""

import argparse
import json
import re
import signal
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import token_hex
from threading import Thread

from notifier.client import Client, MentionEvent, Outbox

MENTION = re.compile(r"(?<!\w)@(\w{1,50})")
LONGEST_TWEET = 10_000
"""Bytes of a request."""


@dataclass(frozen=True)
class Tweets:
    """A real service would store tweets here. This one only sends their mentions."""

    outbox: Outbox

    def post(self, author: str, text: str) -> dict[str, object]:
        """Post a tweet. It never waits for the notifier, and succeeds while the notifier is down."""
        tweet, now = f"t-{token_hex(8)}", datetime.now(UTC)
        mentions = list(dict.fromkeys(MENTION.findall(text)))  # each once, in order
        if mentions:
            event = MentionEvent(id=tweet, at=now, tweet=tweet, author=author, mentions=mentions, text=text)
            if not self.outbox.submit(event):
                # The outbox is full. A real service stores the event and sends it later, with the same id.
                print(f"not notified: {tweet}", flush=True)
        return {"tweet": tweet, "author": author, "text": text, "mentions": mentions}


class Service(ThreadingHTTPServer):
    def __init__(self, port: int, tweets: Tweets) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.tweets = tweets


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        try:
            length = max(0, min(int(self.headers.get("Content-Length", 0)), LONGEST_TWEET))
            tweet = json.loads(self.rfile.read(length))
            author, text = str(tweet["author"]), str(tweet["text"])
        except (ValueError, KeyError, TypeError):
            return self._answer(400, {"error": 'Send {"author": "u7", "text": "hello @nova"}.'})
        if self.path != "/tweets":
            return self._answer(404, {"error": "Post to /tweets."})
        return self._answer(201, self.server.tweets.post(author, text))

    def _answer(self, status: int, body: object) -> None:
        content = json.dumps(body).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--port", type=int, default=8090, help="port for POST /tweets; 0 takes a free one (default: 8090)"
    )
    ready = Path("notifier-data/run/ready.json")
    text = f"file that `notifier up` writes, with url and service_key (default: {ready})"
    parser.add_argument("--ready", type=Path, default=ready, metavar="FILE", help=text)
    asked = parser.parse_args()
    if not asked.ready.exists():
        parser.error(f"{asked.ready} does not exist: start `notifier up`, or name its file with --ready")

    notifier = json.loads(asked.ready.read_text())
    with (
        Client(notifier["url"], notifier["service_key"], source="//tweets.example") as client,
        Outbox(client) as outbox,  # on exit it waits up to five seconds and logs the events that it could not send
        Service(asked.port, Tweets(outbox)) as server,
    ):
        signal.signal(signal.SIGTERM, lambda *_: Thread(target=server.shutdown).start())
        print(f"http://127.0.0.1:{server.server_port}/tweets", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("stopped")


if __name__ == "__main__":
    main()

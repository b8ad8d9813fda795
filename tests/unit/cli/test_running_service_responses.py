"""Commands refuse a response of the running service without a JSON object."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from notifier.cli.running_service import request_json
from notifier.domain.errors import Refused


class Answer(BaseHTTPRequestHandler):
    """Answers with the path of the request, without its slash."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.path.removeprefix("/").encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def service() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Answer)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("answer", ["5", "[]", "null", "<html>"])
def test_answer_without_a_json_object_is_refused(answer: str) -> None:
    with service() as url, pytest.raises(Refused, match=url):
        request_json(f"{url}/{answer}", "a-key")


def test_json_object_is_returned() -> None:
    with service() as url:
        assert request_json(f"{url}/{{}}", "a-key") == {}

"""A demo system, and a client that opens its page from a given address."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from litestar.testing import TestClient

from notifier.api.auth.service_and_installation_keys import demo_token
from notifier.config import Settings
from tests.support.in_memory_http_api import MemoryBackend

COLLAPSE, REFILL = timedelta(seconds=20), timedelta(seconds=60)
"""The values that `notifier demo` sets."""
HERE = "http://127.0.0.1:8080"


@dataclass(slots=True)
class Visitor:
    backend: MemoryBackend
    client: TestClient[Any]

    @property
    def key(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {demo_token(self.backend.keys)}"}

    def post(self, path: str, body: object = None, **headers: str) -> Any:
        return self.client.post(path, json=body, headers={**self.key, **headers})


@contextmanager
def demo_visitor(
    data: Path, *, demo: str = "u1,u2,u3,bob", address: str = "127.0.0.1", empty: Callable[[], bool] = lambda: True
) -> Iterator[Visitor]:
    settings = Settings(demo=demo, data=data, command=".venv/bin/notifier", collapse=COLLAPSE, refill=REFILL)
    backend = MemoryBackend(settings)
    app = backend.app(empty=empty)

    async def app_from_address(scope: Any, receive: Any, send: Any) -> None:
        await app(scope | {"client": (address, 40_000)} if scope["type"] == "http" else scope, receive, send)

    with TestClient(app_from_address, base_url=HERE, raise_server_exceptions=False) as client:
        yield Visitor(backend, client)

"""Test clients that call from a given address."""

from typing import Any

from litestar.testing import TestClient

from tests.support.in_memory_http_api import MemoryBackend


def client_from(backend: MemoryBackend, address: str, host: str = "127.0.0.1:8080") -> TestClient[Any]:
    """Return a client that calls from the address, with `host` as the host of its URL."""

    async def app_from_address(scope: Any, receive: Any, send: Any) -> None:
        await app(scope | {"client": (address, 40_000)} if scope["type"] == "http" else scope, receive, send)

    app = backend.app()
    return TestClient(app_from_address, base_url=f"http://{host}", raise_server_exceptions=False)

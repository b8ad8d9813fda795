"""Somebody who calls from an address, as a test's client has none by itself."""

from typing import Any

from litestar.testing import TestClient

from tests.support.http_app import House


def neighbour(house: House, address: str, name: str = "127.0.0.1:8080") -> TestClient[Any]:
    """Somebody who calls from that address, by that name."""

    async def from_there(scope: Any, receive: Any, send: Any) -> None:
        await app(scope | {"client": (address, 40_000)} if scope["type"] == "http" else scope, receive, send)

    app = house.app()
    return TestClient(from_there, base_url=f"http://{name}", raise_server_exceptions=False)

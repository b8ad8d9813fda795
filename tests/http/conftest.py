"""A system in memory and an API client for each test."""

from collections.abc import Iterator

import pytest
from litestar.testing import TestClient

from tests.support.http_app import Edge, House


@pytest.fixture
def edge() -> Iterator[Edge]:
    house = House()
    # Tests check error responses, so the client must not raise the errors instead.
    with TestClient(house.app(), raise_server_exceptions=False) as client:
        yield Edge(house, client)

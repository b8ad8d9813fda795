"""A house of one's own for each test, and its edge."""

from collections.abc import Iterator

import pytest
from litestar.testing import TestClient

from tests.support.http_app import Edge, House


@pytest.fixture
def edge() -> Iterator[Edge]:
    house = House()
    # Errors are answered, as they are outside of tests.
    with TestClient(house.app(), raise_server_exceptions=False) as client:
        yield Edge(house, client)

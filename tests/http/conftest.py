"""A system in memory and an API client for each test."""

from collections.abc import Iterator

import pytest
from litestar.testing import TestClient

from tests.support.in_memory_http_api import ApiClient, MemoryBackend


@pytest.fixture
def api_client() -> Iterator[ApiClient]:
    backend = MemoryBackend()
    # Tests check error responses, so the client must not raise the errors instead.
    with TestClient(backend.app(), raise_server_exceptions=False) as client:
        yield ApiClient(backend, client)

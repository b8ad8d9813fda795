"""Kafka responses are decoded although two threads created their class."""

import gc
from typing import Any

import pytest
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.consumer import JoinGroupResponse, OffsetFetchResponse
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse

import notifier.adapters.kafka  # noqa: F401  # importing it pins the response classes


@pytest.mark.parametrize(
    "response", [FindCoordinatorResponse, MetadataResponse, JoinGroupResponse, OffsetFetchResponse]
)
def test_response_is_decoded_after_two_threads_created_its_class(response: Any) -> None:
    version = response.max_version
    pinned = response[version]
    del response._VERSIONS[version]
    assert response[version] is not pinned  # a second thread would register this other class last
    response._VERSIONS[version] = pinned
    gc.collect()
    header = RequestHeader(request_api_key=response.API_KEY, request_api_version=version)
    assert header.get_response_class() is pinned

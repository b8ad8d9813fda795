"""kafka-python's register of answers, after two threads made one class."""

import gc
from typing import Any

import pytest
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.consumer import JoinGroupResponse, OffsetFetchResponse
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse

import notifier.adapters.kafka  # noqa: F401  # which sees to it


@pytest.mark.parametrize("answer", [FindCoordinatorResponse, MetadataResponse, JoinGroupResponse, OffsetFetchResponse])
def test_an_answer_can_be_read_after_two_threads_made_its_class(answer: Any) -> None:
    version = answer.max_version
    kept = answer[version]
    del answer._VERSIONS[version]
    assert answer[version] is not kept  # the other thread's, and the last one that was registered
    answer._VERSIONS[version] = kept
    gc.collect()
    header = RequestHeader(request_api_key=answer.API_KEY, request_api_version=version)
    assert header.get_response_class() is kept

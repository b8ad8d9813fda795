"""Errors of kafka-python become ours in one place: outages, records that are too large, and what a member must know."""

import pytest
from kafka import errors as kafka

from notifier.adapters.kafka.connection import Fenced, PartitionsLost, UnreadableBatch, translated
from notifier.domain.errors import LogUnavailable, Poison


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (kafka.KafkaTimeoutError, LogUnavailable),
        (kafka.NodeNotReadyError, LogUnavailable),
        (kafka.MessageSizeTooLargeError, Poison),
        (kafka.RecordListTooLargeError, Poison),
        (kafka.CommitFailedError, PartitionsLost),
        (kafka.IllegalGenerationError, PartitionsLost),
        (kafka.RebalanceInProgressError, PartitionsLost),
        (kafka.UnknownMemberIdError, PartitionsLost),
        (kafka.FencedInstanceIdError, Fenced),
        (kafka.CorruptRecordError, UnreadableBatch),
        (kafka.UnsupportedCodecError, UnreadableBatch),
    ],
)
def test_library_error_is_translated(error: type[Exception], ours: type[Exception]) -> None:
    with pytest.raises(ours, match="The log can't be read: ") as caught, translated("The log can't be read"):
        raise error
    assert type(caught.value) is ours
    assert type(caught.value.__cause__) is error


@pytest.mark.parametrize("kind", [Fenced, PartitionsLost, UnreadableBatch])
def test_callers_that_need_no_difference_see_an_outage(kind: type[Exception]) -> None:
    assert issubclass(kind, LogUnavailable)


def test_other_errors_pass_unchanged() -> None:
    with pytest.raises(ZeroDivisionError), translated("The log can't be read"):
        _ = 1 / 0

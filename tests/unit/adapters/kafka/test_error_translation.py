"""Errors of kafka-python are translated into our own errors."""

import pytest
from kafka import errors as kafka

from notifier.adapters.kafka.connection_options_and_errors import Fenced, PartitionsLost, UnreadableBatch, translated
from notifier.domain.errors import LogUnavailable, Poison


@pytest.mark.parametrize(
    ("error", "expected"),
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
def test_library_error_is_translated(error: type[Exception], expected: type[Exception]) -> None:
    with pytest.raises(expected, match="Reading the log failed: ") as caught, translated("Reading the log failed"):
        raise error
    assert type(caught.value) is expected
    assert type(caught.value.__cause__) is error


@pytest.mark.parametrize("kind", [Fenced, PartitionsLost, UnreadableBatch])
def test_group_and_batch_errors_are_outages(kind: type[Exception]) -> None:
    assert issubclass(kind, LogUnavailable)


def test_other_errors_pass_unchanged() -> None:
    with pytest.raises(ZeroDivisionError), translated("Reading the log failed"):
        _ = 1 / 0

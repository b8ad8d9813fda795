"""Moments as whole milliseconds since 1970, as every store keeps them, and as Cassandra's microseconds of a write."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND, _MICROSECOND = timedelta(milliseconds=1), timedelta(microseconds=1)


def to_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def from_ms(ms: int) -> datetime:
    return _EPOCH + ms * _MILLISECOND


def to_us(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND

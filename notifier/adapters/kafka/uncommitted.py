"""What a group hasn't committed, read beside it: no membership, no commit, a few records in memory."""

from collections.abc import Iterator
from time import monotonic
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from notifier.adapters.kafka.config import Access, translated
from notifier.adapters.kafka.consumer import logged
from notifier.adapters.kafka.topics import named, shortened
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log import Logged

AT_ONCE = 100
"""Records."""
ANSWERS_WITHIN = 1_000
"""Milliseconds of one poll."""
BYTES = 262_144
"""Of a fetch."""
SILENT_FOR = 5.0
"""Seconds of polls in which nothing comes of what is known to be there: the broker is away, or the topic made anew."""


class Waiting:
    def __init__(self, access: Access, stream: str, group: str) -> None:
        self._access, self._stream, self._group = access, stream, group

    def records(self, limit: int) -> Iterator[Logged]:
        with translated("What waits can't be read"):
            consumer = KafkaConsumer(
                **self._access.options(),
                # For its commits: who only assigns joins no group.
                group_id=self._access.group(self._stream, self._group),
                enable_auto_commit=False,
                max_partition_fetch_bytes=BYTES,
                fetch_max_bytes=BYTES,
            )
            try:
                yield from self._until(consumer, limit)
            finally:
                consumer.close(autocommit=False)

    def _until(self, consumer: KafkaConsumer, limit: int) -> Iterator[Logged]:
        left = self._started(consumer)
        # The library knows it from the metadata it just got; a client for the question would cost half a megabyte.
        life = shortened(consumer._cluster.topic_id(self._access.topic(self._stream)))
        silent = 0.0
        while left and limit > 0:
            began = monotonic()
            found = consumer.poll(timeout_ms=ANSWERS_WITHIN, max_records=min(limit, AT_ONCE))
            silent = 0.0 if found else silent + monotonic() - began
            if silent > SILENT_FOR:
                raise LogUnavailable("What waits can't be read: nothing comes.")
            for place, records in found.items():
                for one in records:
                    if place in left and one.offset < left[place]:
                        limit -= 1
                        yield named(self._logged(one), life)
            for place in [place for place, end in left.items() if consumer.position(place) >= end]:
                del left[place]

    def _started(self, consumer: KafkaConsumer) -> dict[TopicPartition, int]:
        """Stands behind the commits; returns the ends of those partitions that have something."""
        topic = self._access.topic(self._stream)
        places = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(places)
        ends, first = consumer.end_offsets(places), consumer.beginning_offsets(places)
        starts = {
            place: max(consumer.committed(place, timeout_ms=ANSWERS_WITHIN) or 0, first[place]) for place in places
        }
        for place, start in starts.items():
            consumer.seek(place, start)
        return {place: ends[place] for place in places if starts[place] < ends[place]}

    def _logged(self, one: Any) -> Logged:
        return logged(self._stream, one.partition, one.offset, key=one.key, value=one.value)

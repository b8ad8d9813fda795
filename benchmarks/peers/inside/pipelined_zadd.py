"""The simplest design: a sorted set per follower, and a pipelined ZADD for each."""

from collections.abc import Sequence

COMMANDS_PER_PIPELINE = 1000
"""Any number from 200 to 5,000 is equally fast."""


class PipelinedZadd:
    def __init__(self, socket: str) -> None:
        import redis

        self._redis = redis.Redis(unix_socket_path=socket)

    def deliver(self, people: Sequence[int], burst: int) -> None:
        for first in range(0, len(people), COMMANDS_PER_PIPELINE):
            with self._redis.pipeline(transaction=False) as pipeline:
                for person in people[first : first + COMMANDS_PER_PIPELINE]:
                    pipeline.zadd(f"inbox:{person}", {f"mention:nova:{burst}": burst})
                pipeline.execute()

    def reached(self, people: Sequence[int]) -> int:
        with self._redis.pipeline(transaction=False) as pipeline:
            for person in people:
                pipeline.zcard(f"inbox:{person}")
            return pipeline.execute().count(1)

    def close(self) -> None:
        self._redis.close()

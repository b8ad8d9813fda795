"""The design with a Celery task per follower, and a worker that writes each row.

Compared with other options of Celery: the solo pool is faster here than threads or two child processes. Tasks are sent
in batches by one producer, which is five times as fast as one by one.
"""

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

BROKER_DB = 1
POLL_INTERVAL_SECONDS = 0.002
STOP_TIMEOUT_SECONDS = 5.0
PR_SET_PDEATHSIG = 1
WORKER = ["--pool=solo", "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR"]


class CeleryPerFollower:
    def __init__(self, socket: str) -> None:
        import redis

        self._redis = redis.Redis(unix_socket_path=socket)
        self._app = application(socket)
        self._task = self._app.tasks["deliver"]
        self._worker = subprocess.Popen(
            [sys.executable, __file__, socket],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - one system call without a lock
        )
        self._send([0], 0)
        self._wait(1)
        self._redis.flushdb()

    def deliver(self, people: Sequence[int], burst: int) -> None:
        self._send(people, burst)
        self._wait(len(people))

    def reached(self, people: Sequence[int]) -> int:
        with self._redis.pipeline(transaction=False) as pipeline:
            for person in people:
                pipeline.zcard(f"inbox:{person}")
            return pipeline.execute().count(1)

    def close(self) -> None:
        self._worker.terminate()
        try:
            self._worker.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._worker.kill()
            self._worker.wait()

    def _send(self, people: Sequence[int], burst: int) -> None:
        with self._app.producer_pool.acquire(block=True) as producer, producer.batch():
            for person in people:
                self._task.apply_async((person, burst), producer=producer, retry=False)

    def _wait(self, rows: int) -> None:
        """Wait for this many rows. The queues are in another database, so each key of this one is a row."""
        while self._redis.dbsize() < rows:
            if self._worker.poll() is not None:
                raise RuntimeError("the Celery worker ended")
            time.sleep(POLL_INTERVAL_SECONDS)


def application(socket: str) -> Any:
    import redis
    from celery import Celery

    app = Celery("peer", broker=f"redis+socket://{socket}?virtual_host={BROKER_DB}")
    app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=64, worker_send_task_events=False)
    rows = redis.Redis(unix_socket_path=socket)

    def deliver(person: int, burst: int) -> None:
        rows.zadd(f"inbox:{person}", {f"mention:nova:{burst}": burst})

    app.task(name="deliver", ignore_result=True)(deliver)
    app.finalize()
    return app


def _end_with_parent() -> None:
    """End the worker with the peer's process, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    application(sys.argv[1]).worker_main(["worker", *WORKER])

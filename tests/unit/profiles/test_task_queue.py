"""The task queue of the profiles imports Celery only when it is used."""

import subprocess
import sys

from notifier.domain.delivery.slice_and_pool import Pool
from notifier.profiles.redis_urls_and_task_queue import TaskQueue, redis_broker_urls

OPENED_STORES = """
import sys
import notifier.cli.opened_stores, notifier.profiles.embedded
print(sorted({"celery", "kombu"} & {*sys.modules}))
"""


def test_opening_stores_does_not_import_celery() -> None:
    script = [sys.executable, "-c", OPENED_STORES]
    assert subprocess.run(script, capture_output=True, text=True, check=True, timeout=60).stdout == "[]\n"


def test_unused_queue_closes_without_a_broker() -> None:
    TaskQueue(redis_broker_urls("redis://127.0.0.1:1")).close()


def test_each_pool_has_its_own_redis_database() -> None:
    assert len({*redis_broker_urls("redis://127.0.0.1:1").values()}) == len(Pool)

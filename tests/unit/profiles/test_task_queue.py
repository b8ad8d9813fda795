"""The profiles create their task queue, and import Celery for it, on first use."""

import subprocess
import sys
from pathlib import Path

import pytest

from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import BadSetting
from notifier.profiles.redis_urls_and_task_queue import TaskQueue, redis_broker_urls

OPENED_STORES = """
import sys
from pathlib import Path
from notifier.cli.opened_stores import open_stores
from notifier.config import Settings

with open_stores(Settings.read({}, data=Path(sys.argv[1]))) as stores:
    stores.ports.throttles.ending_after(stores.ports.clock.now())
print(sorted({"celery", "kombu"} & {*sys.modules}))
"""


def test_opening_stores_does_not_import_celery(tmp_path: Path) -> None:
    script = [sys.executable, "-c", OPENED_STORES, str(tmp_path)]
    assert subprocess.run(script, capture_output=True, text=True, check=True, timeout=60).stdout == "[]\n"


def test_unused_queue_closes_without_a_broker() -> None:
    TaskQueue(redis_broker_urls("redis://127.0.0.1:1")).close()


@pytest.mark.parametrize(
    "url",
    ["redis://:secret@h/1?ssl_cert_reqs=secret", "redis://h/1?socket_timeout=secret", "amqp://h//?heartbeat=secret"],
)
def test_first_use_refuses_invalid_option_without_showing_it(url: str) -> None:
    queue = TaskQueue(dict.fromkeys(Pool, url))
    with pytest.raises(BadSetting, match="invalid option") as refused:
        queue.depth(Pool.P0)
    assert "secret" not in str(refused.value)

"""Celery worker process on RabbitMQ: no task is lost when either is killed."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.slice_and_pool import Pool, Step
from tests.contracts.rabbit_fixture import Rabbit, rabbit_in
from tests.flow.celery_worker_runner import Host, celery_host, enqueue, make_slice, require_p0_first, wait_until

pytestmark = pytest.mark.thorough

PERSISTED_AFTER_SECONDS = 5.0


@pytest.fixture
def rabbit(tmp_path: Path) -> Iterator[Rabbit]:
    with rabbit_in(tmp_path / "engines") as rabbit_:
        yield rabbit_


@pytest.fixture
def host(rabbit: Rabbit, tmp_path: Path) -> Iterator[Host]:
    with celery_host(rabbit.brokers, tmp_path) as host_:
        yield host_


@pytest.mark.timeout(180)
def test_tasks_survive_a_killed_worker_and_a_killed_broker(host: Host, rabbit: Rabbit, tmp_path: Path) -> None:
    """One test for all checks: starting the broker takes most of the time."""
    folder, second_folder = tmp_path / "phones", tmp_path / "others"
    folder.mkdir()
    second_folder.mkdir()
    with host.working("stuck") as killed:
        host.queue.enqueue([make_slice(1), make_slice(2), make_slice(3)])
        host.wait_for(str(make_slice(1)))
        # The worker holds one task and prefetches no other, so free workers can take them.
        assert host.queue.depth(Pool.P1) == 2
        killed.kill()
    with host.working() as process:
        host.wait_for(str(make_slice(2)), str(make_slice(3)), within=30)
        assert sorted(line for line in host.handled() if line != "ready") == sorted(
            str(make_slice(seq)) for seq in (1, 1, 2, 3)
        )
        wait_until(lambda: host.queue.depth(Pool.P1) == 0, 20)
        # Measured: a single-node cluster persists the list of its queues within two seconds. A node killed before that
        # has the tasks of a queue but not its name. With three nodes, the other two know it.
        time.sleep(PERSISTED_AFTER_SECONDS)
        rabbit.engine.kill()
        host.wait_for_heartbeats()
        rabbit.engine.start()
        rabbit.engine.wait_until_ready()
        enqueue(host, make_slice(4))
        host.wait_for(str(make_slice(4)), within=30)
        rabbit.engine.freeze()
        host.wait_for_heartbeats()
        rabbit.engine.resume()
        enqueue(host, make_slice(5))
        host.wait_for(str(make_slice(5)), within=30)
        process.terminate()
        assert process.wait(20) == 0
    with celery_host(rabbit.brokers, folder, Pool.FCM) as fcm_host, fcm_host.working("gated") as process:
        fcm_host.wait_for("ready")
        require_p0_first(fcm_host)
        # A killed worker would leave its last task in the queue of the next check.
        process.terminate()
        assert process.wait(20) == 0
    with (
        celery_host(rabbit.brokers, second_folder, Pool.FCM) as fcm_host,
        fcm_host.working("until stopped") as process,
    ):
        fcm_host.wait_for("ready")
        require_prefetched_tasks_returned(fcm_host, process)


def require_prefetched_tasks_returned(fcm_host: Host, process: subprocess.Popen[bytes]) -> None:
    p0_slices = [make_slice(seq, Step.FCM, Tier.P0) for seq in range(1, 5)]
    fcm_host.queue.enqueue(p0_slices)
    fcm_host.wait_for(str(p0_slices[0]))
    wait_until(lambda: fcm_host.queue.depth(Pool.FCM) == 0, 20)
    process.terminate()
    assert process.wait(20) == 0
    assert fcm_host.handled() == ["ready", str(p0_slices[0]), "stopped"]
    wait_until(
        lambda: fcm_host.queue.depth(Pool.FCM) == len(p0_slices) - 1,
        20,
        lambda: fcm_host.queue.depth(Pool.FCM),
    )

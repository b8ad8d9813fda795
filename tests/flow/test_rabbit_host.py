"""The Celery host on RabbitMQ: no task is lost, whoever of the two is killed."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.slice import Pool, Step
from tests.contracts.rabbit_fixture import Rabbit, rabbit_in
from tests.flow.celery_host import Host, enqueue, hosting, make_slice, require_p0_first, until

WRITTEN_AFTER = 5.0
"""Seconds."""


@pytest.fixture
def rabbit(tmp_path: Path) -> Iterator[Rabbit]:
    with rabbit_in(tmp_path / "engines") as found:
        yield found


@pytest.fixture
def host(rabbit: Rabbit, tmp_path: Path) -> Iterator[Host]:
    with hosting(rabbit.brokers, tmp_path) as found:
        yield found


@pytest.mark.timeout(180)
def test_what_a_worker_held_when_it_was_killed_goes_to_the_next_who_outlives_the_broker(
    host: Host, rabbit: Rabbit, tmp_path: Path
) -> None:
    """In one test: most of its time would be the broker's start."""
    folder, another = tmp_path / "phones", tmp_path / "others"
    folder.mkdir()
    another.mkdir()
    with host.working("stuck") as killed:
        host.queue.enqueue([make_slice(1), make_slice(2), make_slice(3)])
        host.wait_for(str(make_slice(1)))
        # One task is held, and no other is kept from the workers that are free.
        assert host.queue.depth(Pool.P1) == 2
        killed.kill()
    with host.working() as process:
        host.wait_for(str(make_slice(2)), str(make_slice(3)), within=30)
        assert sorted(word for word in host.handled() if word != "ready") == sorted(
            str(make_slice(seq)) for seq in (1, 1, 2, 3)
        )
        until(lambda: host.queue.depth(Pool.P1) == 0, 10)
        # Measured: the only node of a cluster writes down within two seconds which queues there are; one that is killed
        # before then has a queue's tasks and not its name. With three nodes two others know it.
        time.sleep(WRITTEN_AFTER)
        rabbit.engine.kill()
        host.wait_for_heartbeats()
        rabbit.engine.start()
        rabbit.engine.ready()
        enqueue(host, make_slice(4))
        host.wait_for(str(make_slice(4)), within=30)
        rabbit.engine.freeze()
        host.wait_for_heartbeats()
        rabbit.engine.wake()
        enqueue(host, make_slice(5))
        host.wait_for(str(make_slice(5)), within=30)
        process.terminate()
        assert process.wait(20) == 0
    with hosting(rabbit.brokers, folder, Pool.FCM) as phones, phones.working("gated"):
        phones.wait_for("ready")
        require_p0_first(phones)
    with hosting(rabbit.brokers, another, Pool.FCM) as phones, phones.working("until told") as process:
        phones.wait_for("ready")
        gives_back_what_it_took_ahead(phones, process)


def gives_back_what_it_took_ahead(phones: Host, process: subprocess.Popen[bytes]) -> None:
    vips = [make_slice(seq, Step.FCM, Tier.P0) for seq in range(1, 5)]
    phones.queue.enqueue(vips)
    phones.wait_for(str(vips[0]))
    until(lambda: phones.queue.depth(Pool.FCM) == 0, 5)
    process.terminate()
    assert process.wait(20) == 0
    assert phones.wrote() == ["ready", str(vips[0]), "told"]
    until(lambda: phones.queue.depth(Pool.FCM) == len(vips) - 1, 10)

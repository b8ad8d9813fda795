"""A failed acknowledgement is raised, so that the worker reconnects and gets tasks again."""

import pytest

from workers.celery_worker import StrictAckRequest


class Message:
    """A message of a broker that is gone or reachable."""

    def __init__(self, *, broker_gone: bool) -> None:
        self.broker_gone = broker_gone
        self.acks = 0

    def ack(self) -> None:
        if self.broker_gone:
            raise ConnectionError
        self.acks += 1


def request(message: Message) -> StrictAckRequest:
    acknowledging = StrictAckRequest.__new__(StrictAckRequest)
    acknowledging._message, acknowledging.acknowledged = message, False
    return acknowledging


def test_failed_acknowledgement_is_raised() -> None:
    acknowledging = request(Message(broker_gone=True))
    with pytest.raises(ConnectionError):
        acknowledging.acknowledge()
    assert not acknowledging.acknowledged


def test_task_is_acknowledged_once() -> None:
    message = Message(broker_gone=False)
    acknowledging = request(message)
    acknowledging.acknowledge()
    acknowledging.acknowledge()
    assert message.acks == 1

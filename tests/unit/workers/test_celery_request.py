"""An acknowledgement that the broker doesn't take must reach the worker, or it never asks for a task again."""

import pytest

from workers.host import Acknowledging


class Message:
    """Of a broker that is gone, or there."""

    def __init__(self, *, gone: bool) -> None:
        self.gone = gone
        self.acks = 0

    def ack(self) -> None:
        if self.gone:
            raise ConnectionError
        self.acks += 1


def request(message: Message) -> Acknowledging:
    made = Acknowledging.__new__(Acknowledging)
    made._message, made.acknowledged = message, False
    return made


def test_a_failed_acknowledgement_is_raised_and_not_taken_for_done() -> None:
    made = request(Message(gone=True))
    with pytest.raises(ConnectionError):
        made.acknowledge()
    assert not made.acknowledged


def test_a_task_is_acknowledged_once() -> None:
    message = Message(gone=False)
    made = request(message)
    made.acknowledge()
    made.acknowledge()
    assert message.acks == 1

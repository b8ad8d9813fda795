"""What stands in a topic, as a record of ours, whatever it is and whoever wrote it."""

from notifier.ports.event_log import Logged, Record


def logged(stream: str, partition: int, offset: int, *, key: bytes | None, value: bytes | None) -> Logged:
    """Never raises: the client has passed what it hands out, and what came with it would be lost. A stage that can make
    nothing of it buries it, and goes on with the others."""
    record = Record(stream=stream, key=(key or b"").decode(errors="replace"), value=value or b"")
    return Logged(partition=f"{stream}/{partition}", offset=offset, record=record)

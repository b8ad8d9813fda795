"""What alerts promise to people, each promise tried on a running notifier, or on its flow where that takes hours."""

from notifier.testing.bench.fanout import Parts
from notifier.testing.bench.push import killing

PARTS: Parts = {
    "promises{killed}": (killing.run, (killing.NAME,)),
}

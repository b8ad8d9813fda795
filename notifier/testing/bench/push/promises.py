"""What alerts promise to people, each promise tried on a running notifier, or on its flow where that takes hours."""

from notifier.testing.bench.fanout import Parts
from notifier.testing.bench.push import killing, night, sparing, stalling, vips

PARTS: Parts = {
    "promises{killed}": (killing.run, (killing.NAME,)),
    "promises{spared}": (sparing.run, sparing.NAMES),
    "promises{stalled}": (stalling.run, (stalling.NAME,)),
    "promises{night}": (night.run, night.NAMES),
    "promises{vips}": (vips.run, (vips.NAME,)),
}

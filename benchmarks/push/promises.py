"""The promises of alerts, checked on a running notifier or on the flow."""

from benchmarks.fanout.suite import Parts
from benchmarks.push import forbidden_alerts
from benchmarks.push import kill_workers as killing
from benchmarks.push import quiet_hours_and_late_alerts as night
from benchmarks.push import stalled_provider as stalling
from benchmarks.push import vip_latency as vips

PARTS: Parts = {
    "promises{killed}": (killing.run, (killing.NAME,)),
    "promises{spared}": (forbidden_alerts.run, forbidden_alerts.NAMES),
    "promises{stalled}": (stalling.run, (stalling.NAME,)),
    "promises{night}": (night.run, night.NAMES),
    "promises{vips}": (vips.run, (vips.NAME,)),
}

"""All parts of `notifier bench push`: the transport alone, and each sender against a library of others."""

from notifier.testing.bench.fanout import Parts
from notifier.testing.bench.push import contest, transport
from notifier.testing.bench.push.contest import Pythons


def parts(pythons: Pythons) -> Parts:
    return {**transport.PARTS, **contest.parts(pythons)}

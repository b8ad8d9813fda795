"""All parts of `notifier bench push`: the transport alone, each sender against a library of others, and what is
promised of alerts on a service that runs."""

from notifier.testing.bench.fanout import Parts
from notifier.testing.bench.push import contest, promises, transport
from notifier.testing.bench.push.contest import Pythons


def parts(pythons: Pythons) -> Parts:
    return {**transport.PARTS, **contest.parts(pythons), **promises.PARTS}

"""All parts of `python -m benchmarks push`: the transport alone, each sender against a library of others, and what is
promised of alerts on a service that runs."""

from benchmarks.fanout.suite import Parts
from benchmarks.push import contest, promises, transport
from benchmarks.push.contest import Pythons


def parts(pythons: Pythons) -> Parts:
    return {**transport.PARTS, **contest.parts(pythons), **promises.PARTS}

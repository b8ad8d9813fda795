"""All parts of `python -m benchmarks push`: transport, senders against other libraries, and promises."""

from benchmarks.fanout.suite import Parts
from benchmarks.push import contest, promises, transport
from benchmarks.push.contest import Pythons


def parts(pythons: Pythons) -> Parts:
    return {**transport.PARTS, **contest.parts(pythons), **promises.PARTS}

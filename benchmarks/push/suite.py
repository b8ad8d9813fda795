"""All parts of `python -m benchmarks push`: transport, senders against other libraries, and promises."""

from benchmarks.fanout.suite import Parts
from benchmarks.push import promises, sender_comparison, transport
from benchmarks.push.sender_comparison import Pythons


def parts(pythons: Pythons) -> Parts:
    return {**transport.PARTS, **sender_comparison.parts(pythons), **promises.PARTS}

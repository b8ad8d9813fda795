"""Comparison with other push libraries: measured in turns, with independent failures.

aioapns and pywebpush must be installed from a registry first, so no test runs them. `python -m benchmarks push` does,
and fails a sender with an alert that was not accepted.
"""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.fanout.suite import run
from benchmarks.peers.virtualenvs import NotPrepared
from benchmarks.push.other_libraries import RIVALS
from benchmarks.push.sender_comparison import parts

pytestmark = pytest.mark.prove

FEW = [replace(rival, ours_many=200, many=40) for rival in RIVALS]


def pythons(name: str) -> Path:
    if name == "pywebpush":
        raise NotPrepared("cannot install pywebpush.txt: no registry")
    return Path(sys.executable)


def test_rivals_are_measured_in_turns_and_fail_independently() -> None:
    messages: list[str] = []
    results = {
        result.finding.name: result
        for result in run(quick=True, only=(), tell=messages.append, parts=parts(pythons, FEW))
    }
    assert [*results] == [figure for rival in FEW for figure in rival.figures]
    fcm = results["cpu_us_per_send{fcm}"]
    assert fcm.finding.n == 3
    assert fcm.ours and fcm.peers  # noqa: PT018 - both or neither
    assert "with firebase-admin, cheapest of one" in fcm.finding.detail
    assert messages[-1].endswith("no registry")
    apns, web = (results[f"cpu_us_per_send{{{part}}}"].finding for part in ("apns", "web"))
    assert (apns.ok, web.ok, apns.n) == (False, False, 0)
    assert "No module named 'aioapns'" in apns.detail

"""The groups of the log's readers, as the broker knows them."""

import time
from collections.abc import Mapping

from kafka import TopicPartition

from benchmarks.chaos.stage import Stage
from notifier.adapters.kafka import Access, admin_client, translated
from notifier.domain.errors import NotRunning, Unavailable
from notifier.profiles.cluster_connections import of_kafka
from notifier.topics import GROUPS

JOINS_WITHIN = 60.0
"""Seconds, of a process that is started at the same time."""
LOOKS_EVERY = 0.5

Commits = Mapping[tuple[str, int], int]
"""By stream and partition."""


def await_members(stage: Stage, count: int) -> None:
    """Of every group, at rest: nobody waits for partitions any more. Raises NotRunning."""
    deadline, found = time.monotonic() + JOINS_WITHIN, dict[str, tuple[str, int]]()
    while set(found.values()) != {("Stable", count)}:
        if time.monotonic() > deadline:
            raise NotRunning(f"The log's readers don't get together: {found}")
        time.sleep(LOOKS_EVERY)
        found = _members(of_kafka(stage.settings))


def _members(access: Access) -> dict[str, tuple[str, int]]:
    groups = [access.group(stream, group) for stream, group in GROUPS.items()]
    try:
        with translated("The groups aren't known"), admin_client(access) as admin:
            told = admin.describe_groups(groups)
    except Unavailable:
        return {}
    return {name: (one["group_state"], len(one["members"])) for name, one in told.items()}


def commits(stage: Stage) -> Commits:
    access, found = of_kafka(stage.settings), dict[tuple[str, int], int]()
    with translated("The commits aren't known"), admin_client(access) as admin:
        for stream, group in GROUPS.items():
            name = access.group(stream, group)
            told: Mapping[TopicPartition, object] = admin.list_group_offsets({name: None})[name]
            found |= {(stream, place.partition): int(getattr(at, "offset", -1)) for place, at in told.items()}
    return found


def gone_back(before: Commits, after: Commits) -> list[str]:
    """Where somebody who had lost a partition committed what had been done long ago."""
    return [
        f"the commit of {stream}/{number} went back from {at} to {after[stream, number]}"
        for (stream, number), at in before.items()
        if after.get((stream, number), at) < at
    ]

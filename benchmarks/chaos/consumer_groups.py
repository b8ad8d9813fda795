"""The groups of the log's readers, as the broker knows them."""

import time
from collections.abc import Mapping

from kafka import TopicPartition

from benchmarks.chaos.stage import Stage
from notifier.adapters.kafka import Access, admin_client, translated
from notifier.domain.errors import NotRunning, Unavailable
from notifier.profiles.cluster_connections import kafka_access
from notifier.topics import GROUPS

JOINS_WITHIN = 60.0
"""Seconds, of a process that is started at the same time."""
LOOKS_EVERY = 0.5

Commits = Mapping[tuple[str, int], int]
"""By stream and partition."""


def await_members(stage: Stage, count: int) -> None:
    """Of every group, at rest: nobody waits for partitions any more. Raises NotRunning."""
    deadline, members = time.monotonic() + JOINS_WITHIN, dict[str, tuple[str, int]]()
    while set(members.values()) != {("Stable", count)}:
        if time.monotonic() > deadline:
            raise NotRunning(f"The log's readers don't get together: {members}")
        time.sleep(LOOKS_EVERY)
        members = _members(kafka_access(stage.settings))


def _members(access: Access) -> dict[str, tuple[str, int]]:
    groups = [access.group(stream, group) for stream, group in GROUPS.items()]
    try:
        with translated("The groups aren't known"), admin_client(access) as admin:
            descriptions = admin.describe_groups(groups)
    except Unavailable:
        return {}
    return {
        name: (group_description["group_state"], len(group_description["members"]))
        for name, group_description in descriptions.items()
    }


def commits(stage: Stage) -> Commits:
    access, offsets = kafka_access(stage.settings), dict[tuple[str, int], int]()
    with translated("The commits aren't known"), admin_client(access) as admin:
        for stream, group in GROUPS.items():
            name = access.group(stream, group)
            group_offsets: Mapping[TopicPartition, object] = admin.list_group_offsets({name: None})[name]
            offsets |= {
                (stream, place.partition): int(getattr(at, "offset", -1)) for place, at in group_offsets.items()
            }
    return offsets


def gone_back(before: Commits, after: Commits) -> list[str]:
    """Where somebody who had lost a partition committed what had been done long ago."""
    return [
        f"the commit of {stream}/{number} went back from {at} to {after[stream, number]}"
        for (stream, number), at in before.items()
        if after.get((stream, number), at) < at
    ]

"""Reads the state of the log's consumer groups from the broker."""

import time
from collections.abc import Mapping

from kafka import TopicPartition

from benchmarks.chaos.scenario_stage import Stage
from notifier.adapters.kafka import Access, admin_client, translated
from notifier.domain.errors import NotRunning, Unavailable
from notifier.profiles.cluster_connection_parameters import kafka_access
from notifier.topics import GROUPS

JOIN_TIMEOUT_SECONDS = 60.0
"""Seconds that a process started at the same time may take to join."""
POLL_INTERVAL_SECONDS = 0.5

Commits = Mapping[tuple[str, int], int]
"""Committed offsets by stream and partition."""


def await_members(stage: Stage, count: int) -> None:
    """Wait until each group is stable with this many members. Raises NotRunning."""
    deadline, members = time.monotonic() + JOIN_TIMEOUT_SECONDS, dict[str, tuple[str, int]]()
    while set(members.values()) != {("Stable", count)}:
        if time.monotonic() > deadline:
            raise NotRunning(f"the consumer groups are not stable: {members}")
        time.sleep(POLL_INTERVAL_SECONDS)
        members = _members(kafka_access(stage.settings))


def _members(access: Access) -> dict[str, tuple[str, int]]:
    groups = [access.group(stream, group) for stream, group in GROUPS.items()]
    try:
        with translated("cannot describe the consumer groups"), admin_client(access) as admin:
            descriptions = admin.describe_groups(groups)
    except Unavailable:
        return {}
    return {
        name: (group_description["group_state"], len(group_description["members"]))
        for name, group_description in descriptions.items()
    }


def commits(stage: Stage) -> Commits:
    access, offsets = kafka_access(stage.settings), dict[tuple[str, int], int]()
    with translated("cannot read the committed offsets"), admin_client(access) as admin:
        for stream, group in GROUPS.items():
            name = access.group(stream, group)
            group_offsets: Mapping[TopicPartition, object] = admin.list_group_offsets({name: None})[name]
            offsets |= {
                (stream, place.partition): int(getattr(at, "offset", -1)) for place, at in group_offsets.items()
            }
    return offsets


def gone_back(before: Commits, after: Commits) -> list[str]:
    """Report commits that went back: a consumer that had lost its partition committed old offsets."""
    return [
        f"the commit of {stream}/{number} went back from {at} to {after[stream, number]}"
        for (stream, number), at in before.items()
        if after.get((stream, number), at) < at
    ]

"""Whether a group at rest leaves something unread.

kafka-python's leader shares out what it knows of a topic at that moment. Where it just had no word of the topic, that
is nothing, and it isn't done again when there is one: nobody reads, and everybody is well.
"""

from typing import Any

from notifier.adapters.kafka.access import Access, translated
from notifier.adapters.kafka.making import administration

AT_REST = "Stable"


def unread(access: Access, topic: str, group: str) -> bool:
    """Raises LogUnavailable."""
    with translated("The group isn't known"), administration(access) as admin:
        told = admin.describe_groups([group])[group]
        [found] = admin.describe_topics([topic])
    if told["group_state"] != AT_REST:
        return False
    shares = [share for member in told["members"] for share in _shares(member["member_assignment"])]
    return sum(len(share["partitions"]) for share in shares if share["topic"] == topic) < len(found["partitions"])


def _shares(assignment: Any) -> list[dict[str, Any]]:
    """Of a member that just joined there is none."""
    return list(assignment["assigned_partitions"]) if isinstance(assignment, dict) else []

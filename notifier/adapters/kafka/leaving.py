"""Leaves a group at once: the libraries' close keeps a named member's place for the one that comes back."""

from kafka.admin import MemberToRemove

from notifier.adapters.kafka.access import Access
from notifier.adapters.kafka.making import administration


def leave(access: Access, group: str, member: str, name: str) -> None:
    """By both names: whoever has this one's place by now keeps it. Raises what the library raises."""
    if member:
        with administration(access) as admin:
            admin.remove_group_members(group, [MemberToRemove(member_id=member, group_instance_id=name)])

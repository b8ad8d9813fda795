"""What `notifier explain` says of a digest: when it falls due, what it tells of, whether the person sees it and why."""

from collections.abc import Callable, Mapping
from datetime import datetime

import click

from notifier.cli.commands.tab import digest_facts
from notifier.cli.output import maybe_stamp, print_facts, print_sentence, stamp
from notifier.domain.bursts.burst import expires_at
from notifier.domain.errors import NotFound
from notifier.domain.ids import BurstKey, UserId
from notifier.domain.users.digest import Digest, Schedule, date_in
from notifier.domain.users.visibility import unread
from notifier.flow.inbox.digests import digests_by
from notifier.flow.inbox.page import Look
from notifier.ports.all_ports import ReadPorts
from notifier.ports.clock import Clock

SENTENCES = {
    None: "The person sees it.",
    "to_come": "It falls due later.",
    "expired": "It is older than 90 days.",
    "empty": "Of what opened before it, nothing is told to the person by digest.",
    "hidden": "The person has hidden it.",
}


async def digest_explanation(
    clock: Clock, connect: Callable[[], ReadPorts], key: BurstKey, user: UserId
) -> dict[str, object]:
    """Raises NotFound for a person that doesn't exist, somebody else's digest, and a date that isn't one there."""
    reads = connect()
    member = await reads.people.member(user)
    if member is None:
        raise NotFound(f"The user is {user}.")
    look = Look(viewer=await reads.people.viewer(user, member), member=member, now=clock.now())
    due = _due(look, key)
    digest = (await digests_by(reads.timeline, look, [key])).get(key)
    why = _why(digest, look, due)
    return {
        "burst": str(key),
        "user": user,
        "member": member,
        "visible": why is None,
        "rule": why,
        "because": SENTENCES[why],
        "due_at": stamp(due),
        "digest": digest_facts(digest) if digest else None,
        "marks": _marks(look, key, digest),
    }


def _due(look: Look, key: BurstKey) -> datetime:
    day = date_in(key)
    due = None if day is None else Schedule.of(look.viewer.overall).due(day)
    if due is None or key.subject.owner != look.viewer.user:
        raise NotFound(f"{look.viewer.user} has no digest {key}.")
    return due


def _why(digest: Digest | None, look: Look, due: datetime) -> str | None:
    if due > look.now:
        return "to_come"
    if expires_at(due) <= look.now:
        return "expired"
    if digest is None:
        return "empty"
    return None if look.admits(digest) else "hidden"


def _marks(look: Look, key: BurstKey, digest: Digest | None) -> Mapping[str, object]:
    mark = look.viewer.marks.by_burst.get(key)
    return {
        "mark": str(mark) if mark else None,
        "seen_at": maybe_stamp(look.viewer.marks.seen_at),
        "unread": digest is not None and unread(digest, look.viewer),
    }


def print_digest(found: Mapping[str, object]) -> None:
    digest, marks = found["digest"], found["marks"]
    assert isinstance(marks, dict)
    print_sentence(f"{found['burst']} and {found['user']}: {found['because']}")
    click.echo()
    told = {"tells of": _told(digest)} if isinstance(digest, dict) else {}
    seen = {"mark": marks["mark"] or "none", "seen up to": marks["seen_at"] or "nothing"}
    print_facts({"due": found["due_at"], **told, **seen})


def _told(digest: Mapping[str, object]) -> str:
    inside = digest["inside"]
    assert isinstance(inside, list)
    return ", ".join(inside) + (" and more" if digest["more"] else "")

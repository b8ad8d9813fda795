"""Which world a data folder holds: the numbers of its formulas, in a file beside the stores."""

import json
from dataclasses import asdict, fields
from pathlib import Path

from notifier.domain.errors import OtherWorld, Unwritable
from notifier.domain.ids import Member
from notifier.ports.audience import MemberSets
from notifier.ports.directory import Directory
from notifier.testing.world import World

NOTE = "fixture.json"
DEMO = "demo.json"
DEMO_BEGUN = "demo.loading.json"
DEMO_ENDING = "demo.ending.json"
"""The demo in a browser has notes of its own, one while it loads, one once its world is whole and one while it is
thrown away: by them a folder is known as the demo's, which may be."""
NOTES = (NOTE, DEMO, DEMO_BEGUN, DEMO_ENDING)

FIRST = tuple(Member(number) for number in range(1_024))
"""Whoever put people into a store without a note began with one of these."""


def notes_a_world(note: Path) -> bool:
    """Whether it was written by `claim`: others have a demo.json, too, and it means nothing that theirs is there."""
    found = _read(note)
    return isinstance(found, dict) and {each.name for each in fields(World)} == found.keys()


def require_nobody(data: Path, world: World, directory: Directory, sets: MemberSets) -> None:
    """Raises OtherWorld where there are people and no note of who they are: they may be anybody.

    To be called before `claim`. Every load writes the first celebrity's follower count first, and the names last.
    """
    if any((data / note).exists() for note in NOTES):
        return
    if sets.head(world.subject(0)).total or directory.users(FIRST):
        raise OtherWorld(f"{data} has people, and no {NOTE} that says of which world.")


def claim(data: Path, world: World, note: str = NOTE) -> None:
    """The folder is this world's from now on. Raises OtherWorld for one that is another's, and Unwritable.

    To be called before anything is loaded: a load that was cut off has left people behind, so only the same world may
    follow it, to the same effect.
    """
    require_same(data, world)
    draft = data / f"{note}.new"
    try:
        draft.write_text(json.dumps(asdict(world)), encoding="utf-8")
        draft.replace(data / note)
    except OSError as error:
        raise Unwritable(f"{data}: {error.strerror}.") from error


def require_same(data: Path, world: World) -> None:
    """Raises OtherWorld. A folder that nothing was loaded into fits every world."""
    for note in NOTES:
        if (data / note).exists() and (found := _read(data / note)) != asdict(world):
            raise OtherWorld(f"{data} has {_told(found)}.")


def _read(note: Path) -> object:
    """None for what can't be read."""
    try:
        return json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _told(found: object) -> str:
    """As one writes it for the command line."""
    if not isinstance(found, dict):
        return "one that can't be read"
    return " ".join(f"--{name.replace('_', '-')} {number}" for name, number in found.items() if number is not None)

"""Every command in the documents is run as it stands, or at least understood; none is left out silently."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import bench
from notifier.cli import PLACES, main
from notifier.cli.http import read_ready
from notifier.devkit.check.instance import Instance
from tests.cli.caller import calling
from tests.cli.running import until
from tests.docs.pages import PAGES, Page, ours
from tests.docs.reader import Reader
from tests.docs.understood import understood
from tests.docs.warm import warmed
from tests.repo.sources import ROOT

ELSEWHERE = {
    "docs/tweet-service.md": "tests/client/test_example.py types it, with the Python between",
    "docs/benchmarks.md": "its commands take minutes each; here they are understood, tests/cli/test_bench.py runs one",
    "docs/cluster.md": "it needs engines; its commands are understood, tests/services/test_clustered.py runs a service",
}
UNDERSTOOD = ("docs/benchmarks.md", "docs/cluster.md")
TYPED = [page for page in PAGES if page.script and page.name not in ELSEWHERE]
SAYS = {
    "README.md": ["accepted", "u42: ", "mention:nova#1 and u42: The person sees it."],
    "docs/tour.md": ["mentions of you", "The books balance.", "20 min", "ramping", '"items"', '"shard":'],
    "docs/people.md": ["The person sees it.", "<notifier-inbox>"],
    "docs/operations.md": [
        "There are no dead letters.",
        "20,000/s",
        "notifier_deliveries_total{",
        '"notifier.check/1"',
    ],
}
"""What must be on the screen, beside that nothing fails."""

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """The first mention is delivered: no reader types as fast as a test."""
    folder = tmp_path_factory.mktemp("reader")
    data = folder / "notifier-data"
    notifier("fixture", "--data", str(data))
    with Instance(data=data) as instance, calling(read_ready(data), "") as caller, warmed(ROOT) as warm:
        assert caller.accepted("first")
        until(lambda: caller.settled("first"), 30.0)
        yield Reader(folder=folder, url=instance.url, warm=warm)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.name)
def test_a_page_runs_as_it_stands(page: Page, reader: Reader) -> None:
    done, typed = reader.types(page)
    lift_all(reader.folder / "notifier-data")
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stderr == ""
    if shutil.which("curl"):
        assert [words for words in SAYS.get(page.name, []) if words not in done.stdout] == []
    assert len(typed) >= len(ours(page.script))
    assert {first_words(call) for call in typed} == {first_words(call) for call in ours(page.script)}


def first_words(call: str) -> tuple[str, ...]:
    """The shell has put something else in place of the later ones."""
    return tuple(call.split()[:2])


def lift_all(data: Path) -> None:
    """The next page's reader finds none."""
    for line in notifier("throttle", "list", "--data", str(data)).splitlines()[1:]:
        if "active" in line.split():
            notifier("throttle", "lift", line.split()[0], "--data", str(data))


def notifier(*words: str) -> str:
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_pages_with_commands_are_all_there() -> None:
    with_commands = {page.name for page in PAGES if ours("".join(content for _, content in page.blocks))}
    assert with_commands == {page.name for page in TYPED} | ELSEWHERE.keys()
    assert SAYS.keys() <= with_commands
    assert (ROOT / "tests/client/test_example.py").read_text().count("tweet-service.md")


@each_page
def test_commands_stand_in_blocks_that_are_run(page: Page) -> None:
    """A block of another language holds none, where nobody would try it."""
    others = [content for language, content in page.blocks if language != "sh"]
    if page.name not in ELSEWHERE:
        assert [call for content in others for call in ours(content)] == []


@pytest.mark.parametrize("name", UNDERSTOOD)
def test_what_is_run_elsewhere_is_understood(name: str) -> None:
    [found] = [page for page in PAGES if page.name == name]
    calls = [shlex.split(call, comments=True) for _, content in found.blocks for call in ours(content)]
    for words in calls:
        if words[0] == "notifier":
            understood(words[1:])
        if words[0] == "python":
            understood(words[3:], bench)
    assert calls


@each_page
def test_verbs_named_in_the_text_exist(page: Page) -> None:
    named = {verb for verb in re.findall(r"`notifier ([a-z]+)", page.text) if page.name != "CHANGELOG.md"}
    assert named - PLACES.keys() == set()

"""Every command in the documents is run, or at least parsed."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import bench
from notifier.cli import main
from notifier.cli.running_service import read_ready
from notifier.devkit.check.notifier_and_engine_processes import Instance
from tests.cli.running_service import until
from tests.cli.service_caller import calling
from tests.docs.command_fork_server import running_command_server
from tests.docs.command_line_check import check_command
from tests.docs.document_pages import PAGES, Page, our_commands
from tests.docs.page_command_runner import Reader
from tests.repo.repository_files import ROOT

TESTED_ELSEWHERE = {
    "docs/tweet-service.md": "tests/client/test_tweet_service_page_and_example.py runs it and its Python blocks",
    "docs/benchmarks.md": "its commands take minutes each; they are parsed, and tests/benchmarks runs some",
    "docs/cluster.md": "it needs engines; its commands are parsed, tests/services/test_cluster_service.py runs one",
}
PARSED_PAGES = ("docs/benchmarks.md", "docs/cluster.md")
RUN_PAGES = [page for page in PAGES if page.script and page.name not in TESTED_ELSEWHERE]
EXPECTED_OUTPUT = {
    "README.md": ["accepted", "u42: ", "mention:nova#1 and u42: The user sees it."],
    "docs/tour.md": ["mentions of you", "The totals balance.", "20 min", "ramping", '"items"', '"shard":'],
    "docs/people.md": ["The user sees it.", 'customElements.define("notifier-inbox"'],
    "docs/operations.md": [
        "There are no dead letters.",
        "20,000/s",
        "notifier_deliveries_total{",
        '"notifier.check/1"',
    ],
}
"""Text that the output must contain, besides the absence of errors."""

for_each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Return a reader beside a service that has delivered its first mention."""
    folder = tmp_path_factory.mktemp("reader")
    data = folder / "notifier-data"
    notifier("fixture", "--data", str(data))
    with (
        Instance(data=data) as instance,
        calling(read_ready(data), "") as caller,
        running_command_server(ROOT) as commands,
    ):
        assert caller.post_is_accepted("first")
        until(lambda: caller.is_finished("first"), 30.0)
        yield Reader(folder=folder, url=instance.url, command_server=commands)


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=() if page.name == "README.md" else pytest.mark.thorough)
        for page in RUN_PAGES
    ],
)
def test_page_runs_unchanged(page: Page, reader: Reader) -> None:
    result, calls = reader.run_page(page)
    lift_all(reader.folder / "notifier-data")
    assert result.returncode == 0, result.stderr + result.stdout
    assert result.stderr == ""
    if shutil.which("curl"):
        assert [text for text in EXPECTED_OUTPUT.get(page.name, []) if text not in result.stdout] == []
    assert len(calls) >= len(our_commands(page.script))
    assert {first_words(call) for call in calls} == {first_words(call) for call in our_commands(page.script)}


def first_words(call: str) -> tuple[str, ...]:
    """Return the first two words; the shell expands the later ones."""
    return tuple(call.split()[:2])


def lift_all(data: Path) -> None:
    """Lift all throttles, for the next page."""
    for line in notifier("throttle", "list", "--data", str(data)).splitlines()[1:]:
        if "active" in line.split():
            notifier("throttle", "lift", line.split()[0], "--data", str(data))


def notifier(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_page_with_commands_is_tested() -> None:
    with_commands = {page.name for page in PAGES if our_commands("".join(content for _, content in page.blocks))}
    assert with_commands == {page.name for page in RUN_PAGES} | TESTED_ELSEWHERE.keys()
    assert EXPECTED_OUTPUT.keys() <= with_commands
    assert (ROOT / "tests/client/test_tweet_service_page_and_example.py").read_text().count("tweet-service.md")


@for_each_page
def test_commands_are_in_sh_blocks(page: Page) -> None:
    """Commands in blocks of another language would not be tested."""
    other_blocks = [content for language, content in page.blocks if language != "sh"]
    if page.name not in TESTED_ELSEWHERE:
        assert [call for content in other_blocks for call in our_commands(content)] == []


@pytest.mark.parametrize("name", PARSED_PAGES)
def test_commands_that_are_not_run_can_be_parsed(name: str) -> None:
    [page] = [page for page in PAGES if page.name == name]
    calls = [shlex.split(call, comments=True) for _, content in page.blocks for call in our_commands(content)]
    for arguments in calls:
        if arguments[0] == "notifier":
            check_command(arguments[1:])
        if arguments[0] == "python":
            check_command(arguments[3:], bench)
    assert calls


@for_each_page
def test_commands_named_in_the_text_exist(page: Page) -> None:
    named = {verb for verb in re.findall(r"`notifier ([a-z]+)", page.text) if page.name != "CHANGELOG.md"}
    assert named - main.locations.keys() == set()

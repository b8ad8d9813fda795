"""A refused command prints one sentence: code 2 for wrong usage, 3 for environment errors."""

from pathlib import Path

import pytest

from notifier.cli.command_groups_and_errors import exit_code
from notifier.domain.errors import DataLocked, DiskFull, NotFound, NotifierError, StoreUnavailable
from tests.cli.conftest import Notifier

READING_COMMANDS = [
    ("dump", "bursts"),
    ("inbox", "u1"),
    ("token", "u1"),
    ("audience", "nova"),
    ("ledger", "mention:nova#1"),
    ("explain", "mention:nova#1", "u1"),
    ("deadletters",),
    ("throttle", "list"),
]


@pytest.mark.parametrize(
    ("error", "code"), [(NotFound(), 2), (DataLocked(), 3), (StoreUnavailable(), 3), (DiskFull(), 3)], ids=repr
)
def test_error_has_its_exit_code(error: NotifierError, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize("arguments", READING_COMMANDS, ids=" ".join)
def test_missing_folder_is_one_sentence_and_is_not_created(
    arguments: tuple[str, ...], tmp_path: Path, notifier: Notifier
) -> None:
    missing = tmp_path / "nowhere"
    result = notifier(*arguments, "--data", str(missing))
    assert result.exit_code == 3
    assert result.stdout == ""
    assert result.stderr.strip().count("\n") == 0
    assert str(missing) in result.stderr
    assert not missing.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("inbox", "u1"),
        ("token", "u1"),
        ("audience", "u1"),
        ("ledger", "mention:nova#1"),
        ("explain", "mention:nova#1", "u1"),
    ],
    ids=str,
)
def test_unknown_object_is_usage_error(arguments: tuple[str, ...], folder: Path, notifier: Notifier) -> None:
    result = notifier(*arguments, "--data", str(folder))
    assert result.exit_code == 2
    assert result.stderr.startswith("Not found.")


def test_invalid_burst_key_is_usage_error(folder: Path, notifier: Notifier) -> None:
    result = notifier("ledger", "nova", "--data", str(folder))
    assert (result.exit_code, result.stderr.strip()) == (
        2,
        "A subject is written kind:owner and a burst kind:owner#seq. nova",
    )


def test_invalid_setting_is_environment_error(folder: Path, notifier: Notifier) -> None:
    result = notifier("deadletters", "--data", str(folder), env={"NOTIFIER_PORT": "eighty"})
    assert result.exit_code == 3
    assert result.stderr.startswith("A setting is missing or invalid.")


def test_mention_requires_running_service(folder: Path, notifier: Notifier) -> None:
    result = notifier("mention", "--author", "ada", "--of", "nova", "--data", str(folder))
    assert result.exit_code == 3
    assert "notifier up" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [("mention", "--author", "ada", "--of", "nova"), ("follow", "--follower", "ada", "--of", "nova"), ("inbox", "u1")],
    ids=lambda arguments: str(arguments[0]),
)
def test_unreachable_url_is_named(arguments: tuple[str, ...], folder: Path, notifier: Notifier) -> None:
    result = notifier(*arguments, "--url", "http://127.0.0.1:1", "--data", str(folder))
    assert result.exit_code == 3
    assert result.stderr.startswith(
        "No service answers at this address; `notifier up` starts one. The address is http://127.0.0.1:1/"
    )


def test_mention_to_remote_service_requires_key(tmp_path: Path, notifier: Notifier) -> None:
    arguments = ("mention", "--author", "ada", "--of", "nova", "--url", "http://127.0.0.1:1")
    result = notifier(*arguments, "--data", str(tmp_path / "nowhere"))
    assert (result.exit_code, "--key" in result.stderr) == (2, True)


@pytest.mark.parametrize("ttl", ["0s", "0d", "999ms"])
def test_token_lifetime_below_a_second_is_refused(ttl: str, folder: Path, notifier: Notifier) -> None:
    result = notifier("token", "u1", "--ttl", ttl, "--data", str(folder))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--ttl" in result.stderr


HUGE = "9" * 400
THROTTLED = ("throttle", "set", "--tier", "p2", "--reason", "r")


@pytest.mark.parametrize(
    "arguments",
    [
        *(("demo", "--headless", "--collapse", value) for value in ("nan", "inf", "-inf", "-1")),
        *(("top", "--once", "--every", value) for value in ("nan", "inf", "0", "-1")),
        *(("up", "--hung-after", value) for value in ("nan", "inf", "0")),
        *((*THROTTLED, "--pause", "--for", value) for value in ("nan", "inf", "-1s", "9999999999d", f"{HUGE}s", "0s")),
        *((*THROTTLED, "--for", "1h", "--rate", value) for value in ("nan", "inf", "-1", HUGE, f"{HUGE}k", "0")),
        *(("storm", "--for", value) for value in ("nan", "-1s", "9999999999d")),
        *(("storm", "--rate", value) for value in ("nan", "inf", "1e3", "-10")),
        *(("token", "u1", "--ttl", value) for value in ("nan", "inf", "3000000d", f"{HUGE}d")),
    ],
    ids=lambda arguments: " ".join(arguments)[:60],
)
def test_invalid_number_is_usage_error(arguments: tuple[str, ...], folder: Path, notifier: Notifier) -> None:
    data_option = ("--keep",) if arguments[0] == "demo" else ("--data",)
    result = notifier(*arguments, *data_option, str(folder))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1


def test_outage_without_fault_is_usage_error(folder: Path, notifier: Notifier) -> None:
    result = notifier("demo", "--headless", "--outage", "10m", "--keep", str(folder))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "store-outage" in result.stderr


def test_engines_in_uncreatable_folder_print_one_line(notifier: Notifier) -> None:
    result = notifier("services", "up", "--data", "/proc/nowhere")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.count("\n") == 1

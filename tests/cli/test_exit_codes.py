"""A refusal is one sentence and a code: 2 for wrong usage, 3 for a machine or folder that can't."""

from pathlib import Path

import pytest

from notifier.cli.group import exit_code
from notifier.domain.errors import DataLocked, Full, NotFound, NotifierError, StoreUnavailable
from tests.cli.conftest import Notifier

VERBS_THAT_READ = [
    ("dump", "bursts"),
    ("tab", "u1"),
    ("token", "u1"),
    ("audience", "nova"),
    ("ledger", "mention:nova#1"),
    ("explain", "mention:nova#1", "u1"),
    ("deadletters",),
    ("throttle", "list"),
]


@pytest.mark.parametrize(
    ("error", "code"), [(NotFound(), 2), (DataLocked(), 3), (StoreUnavailable(), 3), (Full(), 3)], ids=repr
)
def test_each_error_has_its_code(error: NotifierError, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize("words", VERBS_THAT_READ, ids=" ".join)
def test_a_folder_that_is_not_there_is_one_sentence_and_not_made(
    words: tuple[str, ...], tmp_path: Path, notifier: Notifier
) -> None:
    nowhere = tmp_path / "nowhere"
    done = notifier(*words, "--data", str(nowhere))
    assert done.exit_code == 3
    assert done.stdout == ""
    assert done.stderr.strip().count("\n") == 0
    assert str(nowhere) in done.stderr
    assert not nowhere.exists()


@pytest.mark.parametrize(
    "words",
    [
        ("tab", "u1"),
        ("token", "u1"),
        ("audience", "u1"),
        ("ledger", "mention:nova#1"),
        ("explain", "mention:nova#1", "u1"),
    ],
    ids=str,
)
def test_what_does_not_exist_is_wrong_usage(words: tuple[str, ...], folder: Path, notifier: Notifier) -> None:
    done = notifier(*words, "--data", str(folder))
    assert done.exit_code == 2
    assert done.stderr.startswith("There is no such thing.")


def test_a_burst_that_is_no_burst_is_wrong_usage(folder: Path, notifier: Notifier) -> None:
    done = notifier("ledger", "nova", "--data", str(folder))
    assert (done.exit_code, done.stderr.strip()) == (
        2,
        "A subject is written kind:owner and a burst kind:owner#seq. nova",
    )


def test_a_setting_that_cannot_be_read_names_this_machine(folder: Path, notifier: Notifier) -> None:
    done = notifier("deadletters", "--data", str(folder), env={"NOTIFIER_PORT": "eighty"})
    assert done.exit_code == 3
    assert done.stderr.startswith("A setting can't be read.")


def test_a_mention_needs_somebody_who_runs(folder: Path, notifier: Notifier) -> None:
    done = notifier("mention", "--author", "ada", "--of", "nova", "--data", str(folder))
    assert done.exit_code == 3
    assert "notifier up" in done.stderr


@pytest.mark.parametrize(
    "words",
    [("mention", "--author", "ada", "--of", "nova"), ("follow", "--follower", "ada", "--of", "nova"), ("tab", "u1")],
    ids=lambda words: str(words[0]),
)
def test_an_address_where_nobody_answers_is_named(words: tuple[str, ...], folder: Path, notifier: Notifier) -> None:
    done = notifier(*words, "--url", "http://127.0.0.1:1", "--data", str(folder))
    assert done.exit_code == 3
    assert done.stderr.startswith(
        "No service answers at this address; `notifier up` starts one. It is http://127.0.0.1:1/"
    )


def test_a_mention_elsewhere_needs_a_key_and_says_so(tmp_path: Path, notifier: Notifier) -> None:
    words = ("mention", "--author", "ada", "--of", "nova", "--url", "http://127.0.0.1:1")
    done = notifier(*words, "--data", str(tmp_path / "nowhere"))
    assert (done.exit_code, "--key" in done.stderr) == (2, True)


@pytest.mark.parametrize("ttl", ["0s", "0d", "999ms"])
def test_a_token_that_has_ended_is_not_made(ttl: str, folder: Path, notifier: Notifier) -> None:
    done = notifier("token", "u1", "--ttl", ttl, "--data", str(folder))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--ttl" in done.stderr


HUGE = "9" * 400
THROTTLED = ("throttle", "set", "--tier", "p2", "--reason", "r")


@pytest.mark.parametrize(
    "words",
    [
        *(("demo", "--headless", "--collapse", said) for said in ("nan", "inf", "-inf", "-1")),
        *(("top", "--once", "--every", said) for said in ("nan", "inf", "0", "-1")),
        *(("up", "--hung-after", said) for said in ("nan", "inf", "0")),
        *((*THROTTLED, "--pause", "--for", said) for said in ("nan", "inf", "-1s", "9999999999d", f"{HUGE}s", "0s")),
        *((*THROTTLED, "--for", "1h", "--rate", said) for said in ("nan", "inf", "-1", HUGE, f"{HUGE}k", "0")),
        *(("storm", "--for", said) for said in ("nan", "-1s", "9999999999d")),
        *(("storm", "--rate", said) for said in ("nan", "inf", "1e3", "-10")),
        *(("token", "u1", "--ttl", said) for said in ("nan", "inf", "3000000d", f"{HUGE}d")),
    ],
    ids=lambda words: " ".join(words)[:60],
)
def test_a_number_that_is_none_is_wrong_usage(words: tuple[str, ...], folder: Path, notifier: Notifier) -> None:
    where = ("--keep",) if words[0] == "demo" else ("--data",)
    done = notifier(*words, *where, str(folder))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_an_outage_that_nothing_brings_is_wrong_usage(folder: Path, notifier: Notifier) -> None:
    done = notifier("demo", "--headless", "--outage", "10m", "--keep", str(folder))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "store-outage" in done.stderr


def test_engines_in_a_folder_that_cant_be_made_are_one_line(notifier: Notifier) -> None:
    done = notifier("services", "up", "--data", "/proc/nowhere")
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1

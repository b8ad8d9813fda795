"""A role that is copied of the template is what one with an interpreter of its own is, and outlives the template."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import psutil
import pytest

from notifier.cli.supervisor.child import Process, starter
from notifier.cli.supervisor.forkserver_client import MOST_FAILURES, Copies
from notifier.config import PROFILES
from tests.cli.copied import BEGINS_WITHIN, copied, template
from tests.cli.running import lives, until

ENDS_WITHIN = 60.0
"""Seconds, on a machine that is busy with other tests; an idle one needs one."""
BROKEN = {"PYTHONHOME": "/nowhere"}
"""With it no interpreter begins."""


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copies]:
    with template(tmp_path_factory.mktemp("copies")) as made:
        yield made


def lasting(copies: Copies, folder: Path) -> Process:
    """One that lives until it is told to stop."""
    copy = copied(copies, folder / "role.log", "fake", "apns", "--ready-file", str(folder / "ready.json"))
    until((folder / "ready.json").exists, ENDS_WITHIN)
    return copy


@pytest.mark.timeout(400)
@pytest.mark.parametrize("profile", PROFILES)
def test_what_the_roles_of_a_profile_import_leaves_nothing_that_a_fork_would_lose(profile: str, tmp_path: Path) -> None:
    """A thread; an open file beside the three streams and the channel; a signal that somebody caught."""
    with template(tmp_path, profile) as made:
        copied(made, tmp_path / "role.log", "--version").wait(ENDS_WITHIN)
        assert made.process
        seen = Path("/proc") / str(made.process.pid)
        assert len(list((seen / "task").iterdir())) == 1
        until(lambda: len(list((seen / "fd").iterdir())) == 4, ENDS_WITHIN)  # once the log of the copy is closed
        # A run that was started in the background ignores SIGINT, and so do all processes that it starts.
        ignored = signals(seen, "SigIgn")
        assert signals(seen, "SigCgt") == {signal.SIGINT} - ignored, "which is Python's own"
        assert (signal.SIGINT in ignored) == (signal.getsignal(signal.SIGINT) is signal.SIG_IGN)


def signals(process: Path, kind: str) -> set[int]:
    [mask] = [line.split()[1] for line in (process / "status").read_text().splitlines() if line.startswith(kind)]
    return {number for number in range(1, 65) if int(mask, 16) >> (number - 1) & 1}


@pytest.mark.timeout(400)
def test_a_copy_has_its_words_its_environment_its_log_and_its_exit_code(copies: Copies, tmp_path: Path) -> None:
    right = copied(copies, tmp_path / "right.log", "settings", "--json", NOTIFIER_THRESHOLD="4711")
    wrong = copied(copies, tmp_path / "wrong.log", "sing")
    assert (right.wait(ENDS_WITHIN), wrong.wait(ENDS_WITHIN)) == (0, 2)
    assert json.loads((tmp_path / "right.log").read_text())["threshold"]["value"] == "4711"
    assert (tmp_path / "wrong.log").read_text().startswith("There is no command 'sing'")


@pytest.mark.timeout(400)
def test_a_copy_is_this_process_s_child_leads_a_group_and_is_known_by_its_words(copies: Copies, tmp_path: Path) -> None:
    copy = lasting(copies, tmp_path)
    seen = psutil.Process(copy.pid)
    assert (seen.ppid(), os.getpgid(copy.pid), os.getsid(copy.pid)) == (os.getpid(), copy.pid, copy.pid)
    assert seen.cmdline()[:5] == [sys.executable, "-m", "notifier", "fake", "apns"]
    assert copies.process
    assert psutil.Process(copies.process.pid).cmdline()[:4] == [
        sys.executable, "-m", "notifier.cli.supervisor.forkserver", "embedded",
    ]  # fmt: skip
    copy.terminate()
    assert copy.wait(ENDS_WITHIN) == 0
    assert not lives(copy.pid)


@pytest.mark.timeout(400)
def test_copies_outlive_their_template_and_the_next_are_of_another(copies: Copies, tmp_path: Path) -> None:
    copy = lasting(copies, tmp_path)
    assert copies.process
    first = copies.process.pid
    os.kill(first, signal.SIGKILL)
    copies.process.wait()
    assert copied(copies, tmp_path / "next.log", "--version").wait(ENDS_WITHIN) == 0
    assert copies.process.pid != first
    assert copy.poll() is None
    os.killpg(copy.pid, signal.SIGKILL)
    assert copy.wait(ENDS_WITHIN) == -signal.SIGKILL


@pytest.mark.timeout(400)
def test_a_template_that_hangs_is_killed_and_nothing_of_what_it_was_asked_for_is_left(
    copies: Copies, tmp_path: Path
) -> None:
    copied(copies, tmp_path / "role.log", "--version").wait(ENDS_WITHIN)
    assert copies.process
    hung = copies.process.pid
    os.kill(hung, signal.SIGSTOP)
    patient, copies.patience = copies.patience, 0.5
    began, before = monotonic(), set(psutil.Process().children(recursive=True))
    with (tmp_path / "role.log").open("ab") as log:
        assert copies.copy(["fake", "apns"], {}, log) is None
    copies.patience = patient
    assert monotonic() < began + ENDS_WITHIN
    assert not lives(hung)
    assert set(psutil.Process().children(recursive=True)) < before


@pytest.mark.timeout(400)
def test_a_template_ends_with_who_began_it(tmp_path: Path) -> None:
    begins = f"""
from pathlib import Path
from notifier.cli.supervisor.forkserver_client import Copies
made = Copies(profile="embedded", log=Path({str(tmp_path / "log")!r}))
made.pending()
print(made.process.pid, flush=True)
input()
"""
    with subprocess.Popen([sys.executable, "-c", begins], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        made = int(process.stdout.readline())
        assert lives(made)
        process.kill()
    until(lambda: not lives(made), ENDS_WITHIN)


@pytest.mark.timeout(400)
def test_where_no_template_begins_a_role_has_an_interpreter_of_its_own(
    copies: Copies, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "role.log"
    broken = Copies(profile="embedded", log=tmp_path / "template.log", environment=BROKEN)
    start, made = starter(["--version"], {}, log, broken), list[Process]()

    def begun() -> bool:
        made.extend(filter(None, [start()]))
        return bool(made)

    with caplog.at_level(logging.WARNING):
        until(begun, BEGINS_WITHIN)
        assert isinstance(made[0], subprocess.Popen)
        made[0].wait(ENDS_WITHIN)
        again = start()
    assert isinstance(again, subprocess.Popen), "it isn't waited for a third"
    again.wait(ENDS_WITHIN)
    assert [message.partition(",")[0] for message in caplog.messages] == ["Roles are started one by one"]
    assert broken.failures == MOST_FAILURES
    assert log.read_text().count("No such option '--parent'.") == 2


def test_so_has_one_where_nobody_makes_a_template(tmp_path: Path) -> None:
    alone = starter(["sing"], {}, tmp_path / "role.log", None)()
    assert isinstance(alone, subprocess.Popen)
    assert alone.wait(ENDS_WITHIN) == 2


@pytest.mark.timeout(400)
def test_who_is_started_by_somebody_who_hears_of_no_child_hears_of_his_own(tmp_path: Path) -> None:
    """Which is inherited: nobody could wait for a child, or tell why it ended."""
    deaf = [
        "import os, signal, sys",
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "os.execv(sys.executable, sys.argv[1:])",
    ]
    words = [sys.executable, "-m", "notifier", "fake", "apns", "--ready-file", str(tmp_path / "ready.json")]
    with subprocess.Popen([sys.executable, "-c", "; ".join(deaf), *words], stdout=subprocess.DEVNULL) as process:
        until((tmp_path / "ready.json").exists, BEGINS_WITHIN)
        ignored = signals(Path("/proc") / str(process.pid), "SigIgn")
        process.terminate()
        assert process.wait(ENDS_WITHIN) == 0
    assert signal.SIGCHLD not in ignored

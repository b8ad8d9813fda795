"""Where people's tokens come from an issuer, the command line makes none; the doctor looks for its keys."""

from pathlib import Path

import pytest

from tests.cli.conftest import Notifier
from tests.support.token_issuer import ed, pem

NAMED: dict[str, str | None] = {"NOTIFIER_ISSUER_NAME": "https://id.example"}


@pytest.mark.parametrize("words", [("token", "u1"), ("tab", "u1", "--url", "http://127.0.0.1:1")], ids=" ".join)
def test_no_token_of_ours_is_made_that_would_open_nothing(
    words: tuple[str, ...], small_world: Path, notifier: Notifier
) -> None:
    env = NAMED | {"NOTIFIER_ISSUER_JWKS": "https://id.example/jwks"}
    done = notifier(*words, "--data", str(small_world), env=env)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "People's tokens come from https://id.example" in done.stderr


def test_a_person_s_tab_is_shown_without_a_token_as_before(small_world: Path, notifier: Notifier) -> None:
    env = NAMED | {"NOTIFIER_ISSUER_JWKS": "https://id.example/jwks"}
    assert notifier("tab", "u1", "--data", str(small_world), env=env).exit_code == 0


def test_the_doctor_says_whether_the_issuer_s_keys_can_be_had(folder: Path, notifier: Notifier) -> None:
    def doctor(**more: str) -> str:
        return notifier("doctor", "--data", str(folder), env=NAMED | dict(more)).output

    assert "fail  issuer" in doctor(NOTIFIER_ISSUER_JWKS="http://127.0.0.1:1/jwks")
    assert "No such file" in doctor(NOTIFIER_ISSUER_KEY=str(folder / "nothing"))
    (folder / "key.pem").write_bytes(pem(ed()))
    assert "ok    issuer" in doctor(NOTIFIER_ISSUER_KEY=str(folder / "key.pem"))
    assert "issuer" not in notifier("doctor", "--data", str(folder)).output

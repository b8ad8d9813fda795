"""With a token issuer, the CLI makes no tokens and the doctor checks its keys."""

from pathlib import Path

import pytest

from tests.cli.conftest import Notifier
from tests.support.token_issuer import ed, pem

ISSUER: dict[str, str | None] = {"NOTIFIER_ISSUER_NAME": "https://id.example"}


@pytest.mark.parametrize("arguments", [("token", "u1"), ("inbox", "u1", "--url", "http://127.0.0.1:1")], ids=" ".join)
def test_own_token_is_refused_when_issuer_is_set(
    arguments: tuple[str, ...], small_world: Path, notifier: Notifier
) -> None:
    env = ISSUER | {"NOTIFIER_ISSUER_JWKS": "https://id.example/jwks"}
    result = notifier(*arguments, "--data", str(small_world), env=env)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "User tokens are issued by https://id.example" in result.stderr


def test_inbox_is_shown_without_token_when_issuer_is_set(small_world: Path, notifier: Notifier) -> None:
    env = ISSUER | {"NOTIFIER_ISSUER_JWKS": "https://id.example/jwks"}
    assert notifier("inbox", "u1", "--data", str(small_world), env=env).exit_code == 0


def test_doctor_checks_keys_of_issuer(folder: Path, notifier: Notifier) -> None:
    def doctor(**environment: str) -> str:
        return notifier("doctor", "--data", str(folder), env=ISSUER | dict(environment)).output

    assert "fail  issuer" in doctor(NOTIFIER_ISSUER_JWKS="http://127.0.0.1:1/jwks")
    assert "No such file" in doctor(NOTIFIER_ISSUER_KEY=str(folder / "nothing"))
    (folder / "key.pem").write_bytes(pem(ed()))
    assert "ok    issuer" in doctor(NOTIFIER_ISSUER_KEY=str(folder / "key.pem"))
    assert "issuer" not in notifier("doctor", "--data", str(folder)).output

"""Sends alerts with pywebpush, with a session and a key that is read once.

Both save it much time. First it decrypts messages of our sender with its own libraries, so that both sides are known to
agree.
"""

import json
from base64 import urlsafe_b64decode
from typing import Any


class Pywebpush:
    def __init__(
        self,
        *,
        origin: str,
        authority: str,
        key: str,
        subject: str,
        keys: list[dict[str, str]],
        letters: list[dict[str, str]],
        **alert: Any,
    ):
        import requests
        from py_vapid import Vapid

        self._session = requests.Session()
        self._session.verify = authority
        self._session.trust_env = False
        self._key, self._subject, self._keys = Vapid.from_pem(key.encode()), subject, keys
        self._origin, self._alert = origin, alert
        for keys_of, letter in zip(keys, letters, strict=False):  # there are more browsers than messages
            self._read(letter, keys_of["auth"])

    def _read(self, letter: dict[str, str], secret: str) -> None:
        """Check a message with http_ece and py_vapid. Raises ValueError, or their errors."""
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from http_ece import decrypt
        from py_vapid import Vapid02

        content = decrypt(
            _raw(letter["body"]),
            private_key=load_pem_private_key(letter["key"].encode(), None),
            auth_secret=_raw(secret),
            version="aes128gcm",
        )
        # It accepts its own format, without the space that RFC 8292 has after the comma.
        if not Vapid02.verify(letter["authorization"].replace(", ", ",")):
            raise ValueError("py_vapid rejects the token of our message")
        if json.loads(content)["title"] != self._alert["text"]:
            raise ValueError("http_ece decrypts our message to another content")

    def send(self, numbers: range, way: str) -> int:
        from pywebpush import webpush

        content = json.dumps({"title": self._alert["text"], "tag": self._alert["tag"], "lang": "en"})
        accepted = 0
        for number in numbers:
            answer = webpush(
                {"endpoint": f"{self._origin}/wpush/v2/{number}", "keys": self._keys[number % len(self._keys)]},
                data=content,
                vapid_private_key=self._key,
                vapid_claims={"sub": self._subject},
                ttl=self._alert["lasts"],
                headers={"urgency": "high", "topic": self._alert["tag"]},
                requests_session=self._session,
            )
            accepted += answer.status_code == 201
        return accepted

    def close(self) -> None:
        self._session.close()


def _raw(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))

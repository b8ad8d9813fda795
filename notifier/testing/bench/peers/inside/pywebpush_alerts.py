"""pywebpush with a session, so that connections are kept, and with a key that is read once: both spare it much."""

import json
from typing import Any


class Pywebpush:
    def __init__(self, origin: str, authority: str, key: str, subject: str, keys: list[dict[str, str]], **alert: Any):
        import requests
        from py_vapid import Vapid

        self._session = requests.Session()
        self._session.verify = authority
        self._session.trust_env = False
        self._key, self._subject, self._keys = Vapid.from_pem(key.encode()), subject, keys
        self._origin, self._alert = origin, alert

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

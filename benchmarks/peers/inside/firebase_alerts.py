"""Sends alerts with firebase-admin: one by one, or 500 at once by threads or httpx."""

import asyncio
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

MESSAGES_PER_CALL = 500
"""The library's maximum."""


class Firebase:
    def __init__(self, origin: str, account: dict[str, Any], **alert: Any) -> None:
        warnings.simplefilter("ignore", DeprecationWarning)  # about tokens, with each message
        from firebase_admin import messaging

        self._alert, self._messaging = alert, messaging
        self._app, self._app_of_async = (_app(name, origin, account) for name in ("1", "2"))
        self._loop = asyncio.new_event_loop()  # one for all calls: the library's client can't be used in another

    def send(self, numbers: range, way: str) -> int:
        if way == "one":
            return sum(bool(self._messaging.send(self._message(number), app=self._app)) for number in numbers)
        groups = [numbers[first : first + MESSAGES_PER_CALL] for first in range(0, len(numbers), MESSAGES_PER_CALL)]
        return sum(self._together([*map(self._message, group)], way) for group in groups)

    def close(self) -> None:
        self._loop.close()

    def _together(self, messages: Sequence[Any], way: str) -> int:
        if way == "each":
            return int(self._messaging.send_each(messages, app=self._app).success_count)
        sending = self._messaging.send_each_async(messages, app=self._app_of_async)
        return int(self._loop.run_until_complete(sending).success_count)

    def _message(self, number: int) -> Any:
        made = self._messaging
        return made.Message(
            token=f"install{number:08}:APA91b{'x' * 60}",
            notification=made.Notification(body=self._alert["text"]),
            android=made.AndroidConfig(
                priority="high",
                ttl=timedelta(seconds=self._alert["lasts"]),
                notification=made.AndroidNotification(tag=self._alert["tag"]),
            ),
        )


def _app(name: str, origin: str, account: dict[str, Any]) -> Any:
    """Create an app for another address.

    Its service reads the address when it is created, and has no setting for it.
    """
    import firebase_admin
    from firebase_admin import credentials, messaging

    messaging._MessagingService.FCM_URL = f"{origin}/v1/projects/{{0}}/messages:send"
    app = firebase_admin.initialize_app(credentials.Certificate(account), name=name)
    messaging._get_messaging_service(app)
    return app

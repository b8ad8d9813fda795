"""Base class of all errors, and errors without a category."""

from datetime import timedelta


class NotifierError(Exception):
    """Something went wrong."""

    code = "error"

    def __init__(self, detail: str = "", retry_after: timedelta | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after = retry_after

    @property
    def title(self) -> str:
        """Return the first line of the class docstring, which is written for the client or operator."""
        return (type(self).__doc__ or "").strip().split("\n")[0]

    def __str__(self) -> str:
        return f"{self.title} {self.detail}".strip()


class DiskFull(NotifierError):
    """The disk is full: writes are refused, reads still work."""

    code = "disk_full"


class Poison(NotifierError):
    """The data can't be used, and a retry won't help."""

    code = "poison"


class RuleFailed(NotifierError):
    """The tier rule failed."""

    code = "rule_failed"


class LaneStopped(NotifierError):
    """The processing lane is stopped by its dead-letter limit; `notifier deadletters resume` starts it again."""

    code = "lane_stopped"

"""What every error is, and those that stand alone."""

from datetime import timedelta


class NotifierError(Exception):
    """Something went wrong."""

    code = "error"

    def __init__(self, detail: str = "", again_after: timedelta | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.again_after = again_after

    @property
    def title(self) -> str:
        """The class's docstring, which is written for the person who reads the refusal."""
        return (type(self).__doc__ or "").strip().split("\n")[0]

    def __str__(self) -> str:
        return f"{self.title} {self.detail}".strip()


class Full(NotifierError):
    """The disk is full: writes are refused, reads go on."""

    code = "disk_full"


class Poison(NotifierError):
    """The bytes can't be understood and never will be."""

    code = "poison"


class RuleFailed(NotifierError):
    """The rule of tiers doesn't say who is in which tier."""

    code = "rule_failed"


class LaneStopped(NotifierError):
    """The lane is stopped by its dead-letter limit; `notifier deadletters resume` starts it again."""

    code = "lane_stopped"

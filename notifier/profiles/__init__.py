"""The only chooser of technology; there is one profile, `embedded.py`."""

from notifier.config import Settings
from notifier.domain.errors import BadSetting
from notifier.profiles.embedded import Embedded
from notifier.profiles.profile import Profile

__all__ = ["Profile", "choose"]


def choose(settings: Settings) -> Profile:
    """Raises BadSetting for a profile that doesn't exist."""
    match settings.profile:
        case "embedded":
            return Embedded(settings)
        case other:
            raise BadSetting(f"NOTIFIER_PROFILE is {other!r}; there is no such profile, but 'embedded'.")

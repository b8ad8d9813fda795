"""The only chooser of technology: `embedded.py` and `cluster.py` are read side by side."""

from notifier.config import Settings
from notifier.domain.errors import BadSetting, Environment
from notifier.profiles.embedded import Embedded
from notifier.profiles.profile import Profile

__all__ = ["Profile", "choose"]


def choose(settings: Settings) -> Profile:
    """Raises BadSetting for a profile that doesn't exist."""
    match settings.profile:
        case "embedded":
            return Embedded(settings)
        case "cluster":
            return _cluster(settings)
        case other:
            raise BadSetting(f"NOTIFIER_PROFILE is {other!r}; there is no such profile, but 'embedded' and 'cluster'.")


def _cluster(settings: Settings) -> Profile:
    """Its clients are an extra, which nobody needs for the embedded profile."""
    try:
        from notifier.profiles.cluster import Clustered
    except ModuleNotFoundError as error:
        raise Environment(f"The cluster profile needs more: pip install 'notifier[cluster]' ({error}).") from error
    return Clustered(settings)

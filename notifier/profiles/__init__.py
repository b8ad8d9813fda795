"""Profiles choose the adapters behind the ports.

`embedded.py` and `cluster.py` are built alike.
"""

from notifier.config import Settings
from notifier.domain.errors import BadSetting, UnusableEnvironment
from notifier.profiles.embedded import EmbeddedProfile
from notifier.profiles.profile import Profile

__all__ = ["Profile", "choose"]


def choose(settings: Settings) -> Profile:
    """Return the profile that the settings name. Raises UnusableEnvironment, such as BadSetting."""
    match settings.profile:
        case "embedded":
            return EmbeddedProfile(settings)
        case "cluster":
            return _cluster(settings)
        case unknown:
            raise BadSetting(f"NOTIFIER_PROFILE is {unknown!r}; it must be 'embedded' or 'cluster'.")


def _cluster(settings: Settings) -> Profile:
    """Import the cluster profile lazily: its client libraries are an optional extra that `embedded` does not need."""
    try:
        from notifier.profiles.cluster import ClusterProfile
    except ModuleNotFoundError as error:
        raise UnusableEnvironment(
            f"The cluster profile needs an extra: pip install 'notifier[cluster]' ({error})."
        ) from error
    return ClusterProfile(settings)

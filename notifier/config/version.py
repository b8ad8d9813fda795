"""Which version of the software this is."""

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    try:
        return version("notifier")
    except PackageNotFoundError:
        return "from source"

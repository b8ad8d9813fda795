"""Whether there is a browser to look with: Chromium, what drives it, and what judges a page. Imports none of them."""

import shutil
from importlib.util import find_spec

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
DRIVERS = {"playwright": "playwright", "axe_playwright_python": "axe-playwright-python"}


class NoBrowser(RuntimeError):
    """A page can't be looked at here."""


def chromium() -> str:
    """Where the system's own is. Raises NoBrowser, with one sentence that says what to install."""
    if missing := [package for module, package in DRIVERS.items() if find_spec(module) is None]:
        raise NoBrowser(f"A browser is needed, and {' and '.join(missing)} isn't installed: `make setup` does that.")
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        raise NoBrowser("A browser is needed, and no chromium is installed: apt-get install chromium.")
    return found

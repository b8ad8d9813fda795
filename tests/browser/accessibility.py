"""What axe finds wrong with a page."""

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped] # ships neither types nor stubs
from playwright.sync_api import Page


def violations(page: Page) -> list[str]:
    """The names of the rules that are broken, shadow trees included."""
    return [one["id"] for one in Axe().run(page).response["violations"]]

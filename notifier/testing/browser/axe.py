"""What axe finds wrong with a page."""

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped] # ships neither types nor stubs
from playwright.sync_api import Page


def violations(page: Page) -> list[str]:
    """The rules that are broken, each with the first place where it is; shadow trees included."""
    return [f"{one['id']} at {one['nodes'][0]['target']}" for one in Axe().run(page).response["violations"]]

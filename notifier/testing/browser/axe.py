"""What axe finds wrong with a page."""

from typing import Any

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped] # ships neither types nor stubs
from playwright.sync_api import Page

RUN = """() => axe.run({ resultTypes: ["violations"] }).then(({ violations }) =>
  violations.map(({ id, nodes }) => ({ id, target: nodes[0].target })))"""


def violations(page: Page) -> list[str]:
    """The rules that are broken, each with the first place where it is; shadow trees included."""
    if page.evaluate("typeof axe === 'undefined'"):  # half a megabyte, which a document keeps until it is left
        page.evaluate(Axe().axe_script)
    found: list[dict[str, Any]] = page.evaluate(RUN)
    return [f"{one['id']} at {one['target']}" for one in found]

"""Every command, stream, table and public class is in docs/reference.md."""

from tests.docs.reference_page_generator import page
from tests.repo.repository_files import ROOT


def test_reference_equals_the_code() -> None:
    written = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert written == page(), "write it again: python -m tests.docs.reference_page_generator > docs/reference.md"

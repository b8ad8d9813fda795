"""Comparisons with other libraries and designs, in virtual environments of their own."""

"""Other people's ways of doing the same, in virtual environments of their own."""

"""Other people's ways of reaching followers, each in an environment of its own, measured beside ours."""

"""Account flags and directory entries, kept up to date from the stream of account flags."""

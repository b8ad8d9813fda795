"""The stages of a process, built from ports and settings by functions."""

"""`python -m notifier`: the same as the command `notifier`."""

from notifier.cli import main

if __name__ == "__main__":
    main(prog_name="notifier")

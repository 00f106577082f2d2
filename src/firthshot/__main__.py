"""``python -m firthshot`` is the same as the command ``firthshot``."""

from firthshot.cli import main

main()

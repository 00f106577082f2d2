"""``python -m firthshot`` is the same as the command ``firthshot``."""

from firthshot.cli import main

# Workers that a local cluster spawns import this file again.
if __name__ == "__main__":
    main()

"""Run the study: ``python -m studies.unequal_shots --help``."""

from studies.unequal_shots.experiment import main

main()

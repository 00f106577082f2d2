"""Run the study: ``python -m studies.defaults --help``."""

from studies.defaults.experiment import main

main()

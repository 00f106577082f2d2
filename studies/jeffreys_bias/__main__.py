"""Run the study: ``python -m studies.jeffreys_bias --help``."""

from studies.jeffreys_bias.simulation import main

main()

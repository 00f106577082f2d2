"""What ``firthshot bench`` runs: our speed against the plain way, in one process on one machine."""

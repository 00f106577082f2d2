"""What ``python -m benchmarks`` runs: our speed against the plain way, on one machine."""

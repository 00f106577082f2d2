"""The loops of Distribution Calibration that run for every row: draws, products, passes."""

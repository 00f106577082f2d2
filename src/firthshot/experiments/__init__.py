"""A spec → a plan of cells → parts on disk → a summary."""

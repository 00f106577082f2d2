"""From cells to parts on disk: threads or a Dask cluster, the run folder and its records."""

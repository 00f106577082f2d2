"""The head we recommend against nine others: `python -m studies.few_shot`."""

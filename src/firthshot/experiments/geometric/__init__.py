"""The geometric experiment (Fig 1): a kind of run of its own, without banks and classifiers."""

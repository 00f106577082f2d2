import torch
from hypothesis import settings

from firthshot.cli import _progress

# Compiling a kernel takes longer than any deadline, and machines are shared: no clock decides.
# Examples are the same on every machine, so that a red run is always due to a change;
# `pytest --hypothesis-profile=explore` draws new ones.
settings.register_profile("firthshot", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("firthshot")

# The oracles' problems are tiny; torch's threads would only wait for one another.
torch.set_num_threads(1)

# On a busy machine everything takes long: no command says so in a test.
_progress.PATIENCE_SECONDS = 1e6

"""Train the backbones and build the banks."""

"""Pictures and texts to features: architectures, training, encoders, data sets."""

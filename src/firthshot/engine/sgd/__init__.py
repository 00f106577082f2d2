"""The published mini-batch SGD: what the heads share, and a training loop for each."""

"""Optimizers: which parameters get which settings, and the learning rate over time."""

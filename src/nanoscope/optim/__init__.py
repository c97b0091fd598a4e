"""Optimizers, which parameters each of them trains, and the learning rate over time."""

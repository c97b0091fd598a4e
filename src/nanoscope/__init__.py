"""Train a small GPT on the machine you have, and understand every line the run prints."""

__version__ = "0.1.0"

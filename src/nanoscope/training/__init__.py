"""The training loop (trainer.py) and the verbs it calls."""

"""What this machine is, what it can do, and which settings follow for a run."""

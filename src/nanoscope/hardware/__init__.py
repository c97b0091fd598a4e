"""What machine this is, what it can do, and what that means for a run."""

"""Runs as records: the one `Run` type, and the readers that turn any log into it."""

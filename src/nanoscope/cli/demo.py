"""`nanoscope demo`."""


def demo() -> int:
    """The one-minute tour: prepare, train, sample."""
    return 0

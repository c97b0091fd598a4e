"""The program: `nanoscope`, or `python -m nanoscope`."""

import gc

from nanoscope.interrupts import handle_interrupts


def main() -> None:
    handle_interrupts()  # before anything that takes time to import
    gc.set_threshold(100_000)  # importing torch makes 250,000 objects that stay: looking through them takes 0.3 s
    from nanoscope.cli import main as run

    run()


if __name__ == "__main__":
    main()

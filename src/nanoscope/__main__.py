"""The program: `nanoscope`, or `python -m nanoscope`."""

from nanoscope.interrupts import handle_interrupts


def main() -> None:
    handle_interrupts()  # before anything that takes time to import
    from nanoscope.cli import main as run

    run()


if __name__ == "__main__":
    main()

"""`python -m nanoscope` is the same program as `nanoscope`."""

from nanoscope.cli import main

if __name__ == "__main__":
    main()

"""What guessing and n-gram models reach on the validation split of some datasets, and what it costs to find out.

python benchmarks/ladder.py shakespeare python book.txt data/mine [--tokenizer byte]
"""

import argparse
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import psutil

from nanoscope.data.dataset import is_dataset, open_dataset
from nanoscope.data.ngrams import measure
from nanoscope.data.prepare import prepare
from nanoscope.ladder import Ladder


def measured(folder: Path) -> tuple[Ladder, float, float]:
    """The ladder, CPU seconds, and the peak of memory in MB above what the process began with (Linux)."""
    dataset = open_dataset(folder)
    before, began = psutil.Process().memory_info().rss, time.process_time()
    ladder = measure(dataset)
    seconds = time.process_time() - began
    # ru_maxrss would include the parent's peak: it survives fork and exec.
    peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024
    return ladder, seconds, (peak - before) / 1e6


def row(source: str, tokenizer: str) -> str:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(source)
        if not is_dataset(folder):
            folder = prepare([source], Path(temporary) / "data", tokenizer=tokenizer)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:  # so that the peak is its own
            ladder, seconds, megabytes = process.submit(measured, folder).result()
    losses = " | ".join(f"{loss:.4f}" for loss in [ladder.guessing, *ladder.losses])
    tokens = f"{ladder.train_tokens:,}{' sampled' if ladder.sampled else ''} / {ladder.val_tokens:,} {ladder.unit}s"
    return f"| {Path(source).stem} | {tokens} | {losses} | {seconds:.1f} | {megabytes:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="+", help="corpora, text files, or prepared datasets")
    parser.add_argument("--tokenizer", default="auto")
    options = parser.parse_args()
    known = " | ".join(map(str, range(9)))
    print(f"| text | train / val | guessing | {known} | CPU s | MB |\n|{' --- |' * 14}")
    for source in options.sources:
        print(row(source, options.tokenizer), flush=True)


if __name__ == "__main__":
    main()

"""Memory and time of `nanoscope prepare` for a large text. The memory must not grow with the file.

python benchmarks/prepare_memory.py [--gigabytes 2] [--tokenizers char,byte] [--json]
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil


def write_text(path: Path, size: int) -> None:
    """Lines of random words that never repeat as a whole."""
    chooser = random.Random(1)
    words = ["".join(chooser.choices("abcdefghijklmnopqrstuvwxyz", k=chooser.randint(2, 9))) for _ in range(20000)]
    pages = [" ".join(chooser.choices(words, k=2000)) + "\n" for _ in range(200)]
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            chooser.shuffle(pages)
            file.writelines(pages)


def prepare(text: Path, tokenizer: str) -> dict[str, float | str]:
    out = text.with_name(f"{text.stem}-{tokenizer}")
    command = [sys.executable, "-m", "nanoscope", "prepare", str(text), "--out", str(out), "--tokenizer", tokenizer]
    began = time.perf_counter()
    process = psutil.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        try:
            family = [process, *process.children(recursive=True)]
            peak = max(peak, sum(member.memory_info().rss for member in family))
        except psutil.Error:
            pass
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with status {process.returncode}")
    seconds = time.perf_counter() - began
    megabytes = text.stat().st_size / 1e6
    for file in out.iterdir():
        file.unlink()
    return {
        "tokenizer": tokenizer,
        "MB": megabytes,
        "seconds": seconds,
        "MB_per_s": megabytes / seconds,
        "peak_MB": peak / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--tokenizers", default="char,byte")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "large.txt"
        write_text(text, int(options.gigabytes * 1e9))
        rows = [prepare(text, tokenizer) for tokenizer in options.tokenizers.split(",")]
    if options.json:
        print(json.dumps(rows))
        return
    for row in rows:
        line = "{tokenizer:<5} {MB:6.0f} MB in {seconds:6.1f} s, {MB_per_s:6.1f} MB/s, peak {peak_MB:4.0f} MB"
        print(line.format(**row))


if __name__ == "__main__":
    main()

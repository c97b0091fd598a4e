"""Time and memory of `nanoscope explain` for a nanoGPT log of a million lines.

python benchmarks/explain_million_lines.py [LINES]

Prints a table, then one line of JSON. The log is generated into a temporary file. Reading and analysis run in a process
of their own, so that the peak memory is theirs alone.
"""

import json
import math
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXPLAIN = """
import sys, time
begun = time.perf_counter()
from nanoscope.findings.analyse import Options, analyse
from nanoscope.runs.reader import read_log
imported = time.perf_counter()
log = read_log(sys.argv[1])
read = time.perf_counter()
analyses = [analyse(run, Options(), log) for run in log.runs]
done = time.perf_counter()
try:
    import resource
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1 / 1024)
except ImportError:  # Windows
    import psutil
    peak = psutil.Process().memory_info().peak_wset
import json
print(json.dumps({"import_s": imported - begun, "read_s": read - imported, "analyse_s": done - read,
                  "cpu_s": time.process_time(), "peak_mb": peak / 1e6,
                  "steps": len(log.runs[0].steps), "slow": len(analyses[0].slow_steps)}))
"""


def write_log(path: Path, lines: int) -> None:
    """A run with a line every step, an evaluation and a checkpoint every 1000."""
    rng = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for step in range(lines):
            loss = 2.9 + 8 * math.exp(-step / 20_000) + rng.gauss(0, 0.05)
            time_ms = 168 + rng.gauss(0, 2)
            if step % 1000 == 0:
                file.write(
                    f"step {step}: train loss {loss:.4f}, val loss {loss + 0.02:.4f}\nsaving checkpoint to out\n"
                )
                time_ms += 5600
            file.write(f"iter {step}: loss {loss:.4f}, time {time_ms:.2f}ms, mfu 12.07%\n")


def main() -> None:
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.log"
        write_log(path, lines)
        size_mb = path.stat().st_size / 1e6
        begun = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", EXPLAIN, str(path)], capture_output=True, text=True, check=True)
        result = json.loads(done.stdout) | {"lines": lines, "file_mb": size_mb, "wall_s": time.perf_counter() - begun}
    for key, value in result.items():
        print(f"{key:>12} {value:12,.2f}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()

"""What `nanoscope plan` says before a run against what the run then takes, on this machine.

    python -m benchmarks.planned run WORKSPACE                 one round: plan, then train, for each configuration
    python -m benchmarks.planned run WORKSPACE --only quick    one configuration
    python -m benchmarks.planned table WORKSPACE               all rounds so far, as a table (PLANNED.md)

A round takes about four minutes on two quiet cores; rounds on the same workspace add up. `--others` takes the
configurations on which the model of time and memory was mended; the reported ones were not looked at for that.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

SMALL_EVALUATION = ["--eval_iters=5", "--log_interval=1"]
GPT2 = [
    "gpt2-124m", "--dataset=shakespeare", "--tokenizer=gpt2", "--batch_size=2", "--gradient_accumulation_steps=2",
    "--eval_iters=2", "--eval_interval=1000", "--log_interval=1",
]  # fmt: skip
CASES = {
    "classic 0.2M, 4×64": ["laptop-classic", "--n_embd=64", "--max_iters=600", *SMALL_EVALUATION],
    "quick": ["quick", "--log_interval=1"],
    "laptop-classic": ["laptop-classic", "--max_iters=500", *SMALL_EVALUATION],
    "modern 8×256": ["babygpt", "--n_layer=8", "--n_head=8", "--n_embd=256", "--max_iters=15", *SMALL_EVALUATION],
    "GPT-2 124M, 2×2×256": [*GPT2, "--block_size=256", "--max_iters=5"],
}
OTHERS = {
    "classic 2×96": ["laptop-classic", "--n_layer=2", "--n_embd=96", "--max_iters=500", *SMALL_EVALUATION],
    "laptop": ["laptop", "--max_iters=150", "--log_interval=1"],
    "babygpt, 2×8": [
        "babygpt", "--max_iters=20", "--batch_size=8", "--gradient_accumulation_steps=2", *SMALL_EVALUATION,
    ],
    "modern 6×384": ["babygpt", "--n_layer=6", "--n_embd=384", "--max_iters=15", *SMALL_EVALUATION],
    "classic 6×384": ["babygpt-classic", "--batch_size=8", "--max_iters=10", *SMALL_EVALUATION],
    "modern 4×768, GPT-2's vocabulary": [
        *GPT2, "--recipe=modern", "--learning_rate=auto", "--min_lr=auto", "--warmup_iters=0", "--n_layer=4",
        "--block_size=128", "--max_iters=5",
    ],
}  # fmt: skip
COMMAND = [sys.executable, "-m", "nanoscope"]
LIMIT = 0.15


def prepare(workspace: Path) -> None:
    workspace.mkdir(parents=True, exist_ok=True)
    for tokenizer in ("char", "gpt2"):
        if not (workspace / f"data/shakespeare-{tokenizer}").is_dir():
            subprocess.run([*COMMAND, "prepare", "shakespeare", "--tokenizer", tokenizer], cwd=workspace, check=True)


def compare(name: str, words: list[str], workspace: Path) -> dict[str, Any]:
    began = time.perf_counter()
    plan = json.loads(subprocess.run([*COMMAND, "plan", *words, "--json"], cwd=workspace, check=True, stdout=-1).stdout)
    plan_seconds = time.perf_counter() - began
    out = workspace / "run"
    began = time.perf_counter()
    with (workspace / "train.out").open("wb") as log:
        child = subprocess.Popen(
            [*COMMAND, "train", *words, f"--out_dir={out}", "--overwrite=True"], cwd=workspace, stdout=log
        )
        _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(f"{name}: train failed, see {workspace / 'train.out'}")
    events = [json.loads(line) for line in (out / "events.jsonl").read_text("utf-8").splitlines()]
    steps = [event["seconds"] for event in events if event["event"] == "iter"]
    end = next(event for event in events if event["event"] == "end")
    time_plan, memory = plan.get("time", plan), plan.get("memory", plan)  # a tree of before nests them
    return {
        "case": name, "parameters": plan["parameters"], "recipe": plan["recipe"], "plan_seconds": plan_seconds,
        "planned": {"step": plan["tokens_per_step"] / time_plan["tokens_per_second"],
                    "total": time_plan["seconds"], "memory": memory["peak_bytes"]},
        "actual": {"step": median(steps), "total": seconds, "memory": usage.ru_maxrss * 1024},
        "range": [time_plan["seconds_low"], time_plan["seconds_high"]],
        "phases": end["phases"], "steps": len(steps), "parts": time_plan["parts"],
    }  # fmt: skip


def run(workspace: Path, cases: dict[str, list[str]]) -> None:
    workspace = workspace.resolve()
    prepare(workspace)
    for name, words in cases.items():
        found = compare(name, words, workspace)
        with (workspace / "planned.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
        ratios = {key: round(found["planned"][key] / found["actual"][key], 3) for key in found["actual"]}
        print(name, ratios, f"plan took {found['plan_seconds']:.1f} s", flush=True)


def table(workspace: Path) -> str:
    rows = [json.loads(line) for line in (workspace / "planned.jsonl").read_text("utf-8").splitlines()]
    lines = [
        "| configuration | parameters | | planned | actual | planned ÷ actual, each round | worst |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    formats = {
        "step": lambda value: f"{1000 * value:.1f} ms", "total": lambda value: f"{value:.1f} s",
        "memory": lambda value: f"{value / 1e6:.0f} MB",
    }  # fmt: skip
    misses = 0
    for name in dict.fromkeys(row["case"] for row in rows):
        own = [row for row in rows if row["case"] == name]
        for key, write in formats.items():
            ratios = [row["planned"][key] / row["actual"][key] for row in own]
            worst = max(ratios, key=lambda ratio: abs(ratio - 1))
            misses += abs(worst - 1) > LIMIT
            planned, actual = (median(row[side][key] for row in own) for side in ("planned", "actual"))
            first = (name, f"{own[0]['parameters'] / 1e6:.1f}M, {own[0]['recipe']}") if key == "step" else ("", "")
            cells = (
                *first,
                key,
                write(planned),
                write(actual),
                ", ".join(f"{r:.2f}" for r in ratios),
                f"{worst - 1:+.0%}",
            )
            lines.append("| " + " | ".join(cells) + " |")
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    lines.append(
        f"\n{len(rows)} plans and runs on {machine}; {misses} figures are off by more than {LIMIT:.0%} at worst."
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "table"])
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--only")
    parser.add_argument("--others", action="store_true")
    arguments = parser.parse_args()
    if arguments.action == "table":
        print(table(arguments.workspace))
        return
    cases = OTHERS if arguments.others else CASES
    run(arguments.workspace, {name: words for name, words in cases.items() if arguments.only in (None, name)})


if __name__ == "__main__":
    main()

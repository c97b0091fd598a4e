"""`nanoscope sample`."""

from typing import Annotated

from cyclopts import Parameter

from nanoscope.cli.logs import RunPath, latest_run
from nanoscope.errors import UsageError


def sample(
    model: RunPath = None,
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
    init_from: str = "resume",
    out_dir: str | None = None,
    interactive: bool = False,
    json: bool = False,
) -> None:
    """Generate text with a trained model.

    For example:
      nanoscope sample runs/laptop
      nanoscope sample runs/laptop --prompt "ROMEO:" --num_samples=3 --temperature=0.7
      nanoscope sample runs/laptop --prompt FILE:begin.txt --max_new_tokens=2000
      echo -n "To be, " | nanoscope sample runs/laptop --prompt -
      nanoscope sample runs/laptop --interactive
      nanoscope sample out-shakespeare-char
      nanoscope sample gpt2 --prompt "What is the answer to life?"

    Parameters
    ----------
    model
        A run, one of its checkpoints, nanoGPT's ckpt.pt or its folder, gpt2, gpt2-medium, gpt2-large, gpt2-xl, or a
        folder with GPT-2 weights. Default: the latest run in runs/.
    prompt
        Text to continue; FILE:path reads a file, - reads standard input.
    num_samples
        Number of texts, generated in parallel; the first is printed as it is generated.
    max_new_tokens
        Number of tokens to generate for each text.
    temperature
        Lower values are more predictable, higher ones more varied; 0 always takes the most likely token.
    top_k
        Sample from the k most likely tokens; 0: from all.
    top_p
        Sample from the most likely tokens with this total probability.
    seed
        Random seed.
    checkpoint
        best, last, or a name such as step-000500.
    device
        auto, cpu, cuda, cuda:N or mps.
    dtype
        auto, float32, bfloat16 or float16.
    init_from
        As in nanoGPT: resume takes the model from out_dir; gpt2, gpt2-medium, … are OpenAI's weights.
    out_dir
        The run, as nanoGPT names it.
    interactive
        Ask for one prompt after another; each is continued as soon as it is typed.
    json
        Print one JSON object with all texts.
    """
    from nanoscope.hardware.probe import make_cpu_ready

    make_cpu_ready(device, dtype)  # before torch is imported

    from nanoscope.generation.sampler import Sampling
    from nanoscope.generation.write import write_samples

    named = [name for name in (model, out_dir, "" if init_from == "resume" else init_from) if name]
    if len(named) > 1:
        raise UsageError("name one model, not {one} and {other}", one=", ".join(named[:-1]), other=named[-1])
    write_samples(
        named[0] if named else latest_run("checkpoints/last"),
        prompt,
        Sampling(max_new_tokens, temperature, top_k, top_p, seed),
        count=num_samples,
        checkpoint=checkpoint,
        device=device,
        dtype=dtype,
        as_json=json,
        interactive=interactive,
    )

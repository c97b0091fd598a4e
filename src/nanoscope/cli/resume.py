"""`nanoscope resume`: train a run on."""

from nanoscope.cli.logs import latest_run
from nanoscope.cli.train import Words, train


def resume(*sources: Words) -> int:
    """Train a run on from its last checkpoint: the latest run in runs/, or the one you name.

    For example:
      nanoscope resume
      nanoscope resume runs/laptop --max_iters=4000
      nanoscope resume out-shakespeare-char --max_iters=9000      continue a run of nanoGPT from its ckpt.pt

    The run keeps its settings. A flag that you type changes it for good, except log_interval, eval_interval,
    eval_batch_size, sample_interval, patience, device, dtype, compile, threads and backend, which hold for this session
    only.

    Parameters
    ----------
    sources
        The folder of a run, or of nanoGPT's ckpt.pt.
    """
    named = sources and not sources[0].startswith("-")
    run, flags = (sources[0], sources[1:]) if named else (latest_run("checkpoints/last"), sources)
    return train(run, "--init_from=resume", *flags)

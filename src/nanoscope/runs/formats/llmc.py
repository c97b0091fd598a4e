"""llm.c: the console of the CUDA and CPU trainers, and main.log."""

from nanoscope.runs.formats.base import Format, Line, named
from nanoscope.runs.records import CheckpointRecord, EvalRecord, StepRecord
from nanoscope.runs.run import Traits


class LlmC(Format):
    name = "llm.c"
    traits = Traits(
        trains_language_models=True,
        last_is_total_minus_one=False,
        evaluation_in="none",
        total_keys=("train_num_batches", "max_steps"),
    )
    lines = (
        Line(
            StepRecord,
            r"step\s{1,8}{step}/{total}\s?[|:]\s{0,4}(?:train )?loss\s{1,8}{loss}"
            r"(?=(?:.*?{mfu_pct}% (?:bf16 |fp16 |fp32 |tf32 )?MFU)?)",
            "loss",
            rest=("lr", "grad_norm", "tok_s"),
            needs=("time_s",),
        ),
        Line(EvalRecord, r"^\W{0,4}val loss:? {val}\s{0,4}$", "val loss"),
        Line(StepRecord, r"step {step}: train loss {loss} \(took {time_ms} ms\)", "(took "),
        Line(EvalRecord, r"^s:{step} tel:{val}", "tel:"),
        Line(StepRecord, r"^s:{step} trl:{loss}(?: lr:{lr})?(?: norm:{grad_norm})?", "trl:"),
        Line(CheckpointRecord, "^Writing model to ", "Writing model"),
    )
    record_words = ("tel:", "trl:")
    settings = named(
        "max_steps train_num_batches", precision="dtype", sequence_length="block_size", val_loss_every="eval_interval"
    )
    table_rows = (
        ("channels c", "n_embd"),
        ("learning rate (lr)", "learning_rate"),
        ("micro batch size b", "batch_size"),
        ("num_heads nh", "n_head"),
        ("num_layers l", "n_layer"),
        ("num_parameters", "parameters"),
        ("sequence length t", "block_size"),
        ("total batch size", "tokens_per_step"),
        ("vocab_size v", "vocab_size"),
        ("warmup iterations", "warmup_iters"),
    )

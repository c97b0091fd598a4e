"""Made-up numbers of runs: all of them, all but one, none."""

from dataclasses import fields, replace

from nanoscope.analysis.findings import Gap, Overfitting, Stalled
from nanoscope.analysis.known import KnownNumbers

ALL = KnownNumbers(
    loss=1.6931, perplexity=5.4363, bits_per_char=2.4426, train=1.4012, noise=0.021, val=1.6931, best_val=1.6205,
    best_step=1500, eval_train=1.3902, stderr=0.0041,
    overfitting=Overfitting(1500, 1.6205, 1.6931, 1.3902, 0.0726, 500, 0.25, "clear"),
    evaluations=9, eval_s=12.8, eval_share=0.31,
    lr=2e-4, lr_highest=1e-3, lr_falls=True, warmup_step=100, norm=0.42, norm_highest=7.1, norm_highest_step=830,
    clip=1.0, clipped=0.07, spike_step=830, spike_before=1.71, spike_loss=4.02, broken_step=1990, diverged_step=1900,
    last_step=2000, total_steps=5000, done=0.4, tokens_per_step=12 * 64 * 8, tokens_seen=2000 * 12 * 64 * 8,
    train_tokens=1_003_854, epochs=12.2, tokens_per_parameter=1.16, checkpoints=7, checkpoint_step=1750,
    resumed_step=500, step_s=0.11, tok_s=55_854.5, mfu=0.31, peak_tflops=312.0, tflops=96.7, compiled=True,
    compile_s=41.0, memory_gb=3.4, left_s=330.0, left_range=(300.0, 372.0), vocab_size=65, parameters=10_646_784,
    batch_size=12, accumulation=8, block_size=64, n_layer=6, n_head=6, n_embd=384, dropout=0.2, weight_decay=0.1,
    seed=1337, dtype="bfloat16",
)  # fmt: skip
_ABSENT = {field.name: field.default for field in fields(KnownNumbers)}
SOME = (
    ALL, KnownNumbers(), replace(ALL, overfitting=None, evaluations=1),
    replace(ALL, overfitting=Stalled(1500, 0.001, 0.004, 1500, 1.41, Gap(2000, 1.3902, 1.6215, 0.14, 250, 0.02))),
    replace(ALL, dropout=0.0), replace(ALL, dropout=0.0, batch_size=13),
    *(replace(ALL, **{name: absent}) for name, absent in _ABSENT.items()),
)  # fmt: skip

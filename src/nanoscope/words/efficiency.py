"""How well the device is used, and which figures do not fit together."""

from nanoscope.analysis import findings as f
from nanoscope.words.templates import By, First, Say, Sentences, Verbatim, Words, has, known

# fmt: off
PEAK = Verbatim("{peak_tflops:significant} TFLOPS, {peak_dtype}; {peak_source}")
_ACHIEVED = Say("Achieved {achieved_tflops:significant} TFLOP/s = MFU {settled:percent} × {assumed_tflops:significant} "
                "TFLOP/s, the peak of {assumed_device}, which the trainer assumes.", known("assumed_device"))

NOT_YET = Say("{mfu} is a placeholder: the trainer does not measure MFU during its first five iterations.",
              has("begins_unmeasured"), mfu="mfu -100.00%")
FALLS = Say("The printed MFU falls at evaluations (step {falls_at:plain}: from {before} to {after}) though training is "
            "no slower: it is a moving average, {kept} × the value before + {new} × that of the line, whose time "
            "includes the evaluation.", known("falls_at"), kept="0.9", new="0.1",
            before=lambda mfu: f"{100 * mfu.fell_from:.2f}%", after=lambda mfu: f"{100 * mfu.fell_to:.2f}%")

MESSAGES: dict[type[f.Finding], Words] = {
    f.Mfu: Sentences(
        By(
            "reason",
            not_measured=Say("MFU was not measured; the negative value is a placeholder.",
                             lambda mfu: not mfu.begins_unmeasured),
            rounds_to_zero=Say("MFU is printed as 0: this run does too little arithmetic to show against "
                               "{assumed_tflops:significant} TFLOP/s, the peak of {assumed_device}, which the trainer "
                               "assumes."),
            peak_unknown=Say("MFU is printed as 0: the trainer does not know the peak of this device."),
            above_one=Sentences(
                Say("The printed MFU of {settled:percent} is impossible, because no device exceeds its peak: the "
                    "trainer divides by the peak of another device, or miscounts the work."),
                Say("If the work is counted correctly, {achieved_tflops:significant} TFLOP/s were achieved.",
                    known("achieved_tflops")),
            ),
            does_not_fit=Say("These figures do not fit together: the printed MFU of {settled:percent} means "
                             "{achieved_tflops:significant} TFLOP/s, more than the {peak_tflops:significant} TFLOP/s "
                             "that {device} can do. Check the device, the batch and the number of parameters."),
            assumes_other_device=_ACHIEVED,
            device_unknown=_ACHIEVED,
            moving_average=Say("The printed MFU (last {last:percent}) is a moving average that evaluations pull down: "
                               "a normal step reaches {settled:percent}, {achieved_tflops:significant} TFLOP/s."),
            matches_device=Say("MFU {settled:percent}: training uses {achieved_tflops:significant} of the "
                               "{assumed_tflops:significant} TFLOP/s that this device can do."),
            unchecked=First(
                Say("The printed MFU of {settled:percent} assumes a peak of {assumed_tflops:significant} TFLOP/s: "
                    "{achieved_tflops:significant} TFLOP/s were achieved. The log does not show whether this device "
                    "has that peak.", known("assumed_tflops")),
                Say("The log prints an MFU of {settled:percent}, and does not show against which peak."),
            ),
        ),
        First(
            Say("On {device} (peak {peak}) that is {recomputed:percent}.",
                lambda mfu: mfu.recomputed is not None and mfu.reason in ("assumes_other_device", "above_one"),
                peak=PEAK),
            Say("The peak is that of {device}: {peak}.",
                lambda mfu: mfu.device and mfu.peak_dtype and mfu.peak_source
                and mfu.reason in ("matches_device", "moving_average", "unchecked"),
                peak=PEAK),
            Say("{option} works out the share for your device.",
                lambda mfu: mfu.device is None and mfu.assumed_tflops and mfu.trust == "wrong_peak",
                option="--device NAME"),
        ),
        FALLS,
        NOT_YET,
    ),
    f.Achieved: Sentences(
        First(
            Say("Achieved {tflops:significant} TFLOP/s on each device: 6 × {parameters:large} parameters × tokens/s.",
                has("per_device", "parameters")),
            Say("Achieved {tflops:significant} TFLOP/s: 6 × {parameters:large} parameters × tokens/s.",
                known("parameters")),
            Say("Achieved {tflops:significant} TFLOP/s, by the log's own FLOPs per token."),
        ),
        Say("That is {share:percent} of the peak of {device} ({peak}).", known("share"), peak=PEAK),
    ),
    f.Mismatch: By(
        "kind",
        step_of_data=First(
            Say("Each step reads {value} tokens, {share:percent} of the training data ({other} tokens): "
                "{setting} is still {setting_value:plain}.", known("setting")),
            Say("Each step reads {value} tokens, {share:percent} of the training data ({other} tokens)."),
        ),
        beyond_total=Say("The log has reached {value}, beyond its total of {other}: one of the two numbers counts "
                         "something else, so nothing is said about the time remaining."),
        tokens_and_time=First(
            Say("Tokens/s × step time makes {value:large} tokens, but a step reads {other:large} by the settings: "
                "the printed tokens/s may be those of one device or one micro-batch.", lambda m: m.share < 1),
            Say("Tokens/s × step time makes {value:large} tokens, but a step reads {other:large} by the settings: "
                "there may be more devices or micro-batches than the log says."),
        ),
    ),
}

"""Time, speed and memory."""

from nanoscope.words.concepts.concept import Concept
from nanoscope.words.templates import First, Say, Verbatim, has, known

CONCEPTS = (
    Concept(
        "step_time",
        Say("Step time"),
        Say("How long one step takes, without evaluations, checkpoints and start-up."),
        here=Say("A normal step of this run takes {step_s:duration}.", known("step_s")),
        normal=Say(
            "Steps of one run take nearly the same time. The first is slow because of start-up, regular slow "
            "ones are mostly evaluations or checkpoints; irregular ones may come from other programs, heat, "
            "or waiting for data."
        ),
        mistake=Say(
            "“Time left is the last printed time × the steps left.” That line may hold an evaluation, and the "
            "evaluations to come are not in it."
        ),
        aliases=("time", "dt", "iter_time", "ms", "time_s"),
        related=("step", "evaluation", "tokens_s"),
        shown=("step_s",),
    ),
    Concept(
        "tokens_s",
        Say("Tokens per second"),
        Say("How many tokens training reads in a second: the speed to compare runs by."),
        here=Say("In this run: {tok_s:large}.", known("tok_s")),
        normal=Say(
            "Larger micro-batches, compiling and a suitable precision raise it until the device is busy all "
            "the time. Compare it only between models of the same size and context."
        ),
        mistake=Say(
            "“Its steps are quicker, so it trains faster.” A step with half the batch is quicker and learns "
            "from half the text."
        ),
        aliases=("tok_s", "tps", "throughput", "speed", "tokens_per_second", "tokens_per_sec"),
        related=("mfu", "batch", "step_time"),
        shown=("tok_s",),
    ),
    Concept(
        "flops",
        Say("FLOPs"),
        Say("Additions and multiplications: training takes about 6 of them for each parameter and token."),
        here=First(
            Say(
                "In this run so far: about {formula}.",
                known("flops", "parameters", "tokens_seen"),
                formula=Verbatim("6 × {parameters} × {tokens_seen} = {flops:rate}"),
            ),
            Say(
                "For each token of this run: about {formula}.",
                known("parameters"),
                formula=Verbatim("6 × {parameters} = {flops_token}"),
            ),
        ),
        normal=Say(
            "Attention adds {formula} for each token. Divided by the peak of the device, they give the least "
            "time that a run can take.",
            formula="12 × n_layer × n_embd × block_size",
        ),
        mistake=Say("“FLOPs and FLOP/s are the same.” The first is an amount of work, the second a speed."),
        aliases=("flop", "tflops", "arithmetic", "compute"),
        related=("mfu", "parameters"),
        shown=("tflops",),
    ),
    Concept(
        "mfu",
        Say("MFU"),
        Say("Model FLOPs utilisation: the share of the device's arithmetic peak that training uses."),
        here=First(
            Say(
                "In this run: {mfu:percent} of {peak_tflops:significant} TFLOP/s, the peak of the device.",
                known("mfu", "peak_tflops"),
            ),
            Say("In this run: {mfu:percent}.", known("mfu")),
        ),
        normal=Say(
            "It never reaches {full:percent}: moving data and small operations take time, too. PaLM was "
            "trained at {palm:percent}; small models reach far less. Larger micro-batches and compiling raise "
            "it.",
            full=1.0,
            palm=0.462,
        ),
        mistake=Say(
            "“My laptop uses only {little:percent} of its power.” nanoGPT divides by the peak of an A100 (312 "
            "TFLOP/s), whatever it runs on.",
            little=0.01,
        ),
        aliases=("mfu_pct", "utilisation", "utilization", "model_flops_utilization"),
        related=("flops", "tokens_s", "compile"),
        shown=("mfu",),
    ),
    Concept(
        "compile",
        Say("Compiling"),
        Say(
            "torch.compile turns the model into code made for it and the device: a slow start, then usually "
            "faster steps."
        ),
        here=First(
            Say(
                "In this run the first step takes {compile_s:duration}, with compiling in it.",
                known("compiled", "compile_s"),
            ),
            Say("It is on in this run.", has("compiled")),
        ),
        normal=Say(
            "It pays in long runs. On a small CPU it may not pay at all: compare the step times of two short "
            "runs, one with {off}.",
            off="compile=False",
        ),
        mistake=Say("“The first iteration hangs.” It is compiling: that may take a minute or more, once."),
        aliases=("torch_compile", "compiling", "compilation"),
        related=("step_time", "tokens_s"),
        shown=("compiled",),
    ),
    Concept(
        "dtype",
        Say("Precision (dtype)"),
        Say("With how many bits the numbers are computed: float32, bfloat16 or float16."),
        here=Say("In this run: {dtype}.", known("dtype")),
        normal=Say(
            "On GPUs that have it, bfloat16 is usual: the range of float32 with fewer digits. float16 has a "
            "small range and needs a loss scale. CPUs with AVX512_BF16 or AMX can multiply matrices about twice as "
            "fast in bfloat16; on most others, float32 is faster."
        ),
        mistake=Say(
            "“With 16 bits the model gets worse.” The weights are usually kept in float32, and the losses "
            "mostly agree within their noise."
        ),
        aliases=("precision", "bfloat16", "float16", "float32", "bf16", "fp16", "fp32", "mixed_precision", "amp"),
        related=("memory", "divergence"),
        shown=(),
    ),
    Concept(
        "memory",
        Say("Memory"),
        Say(
            "What must fit into the device: weights, gradients, the optimizer's state, and the values "
            "computed for a micro-batch."
        ),
        here=First(
            Say("In this run, as last printed: {memory_gb:significant} GB.", known("memory_gb")),
            Say(
                "With AdamW in float32, {formula} GB for this run's parameters, before any text is read.",
                known("adamw_gb", "parameters"),
                formula=Verbatim("16 × {parameters} / 1e9 = {adamw_gb:significant}"),
            ),
        ),
        normal=Say(
            "What is computed for a micro-batch grows with its size and the context. If memory runs out, "
            "halve {size} and double {steps}.",
            size="batch_size",
            steps="gradient_accumulation_steps",
        ),
        mistake=Say(
            "“The model's file is small, so it trains in little memory.” In float32, AdamW needs four times "
            "the weights, and then the values of a micro-batch."
        ),
        aliases=("memory_gb", "gpu_peak_gb", "gpu_gb", "vram", "ram", "oom", "out_of_memory"),
        related=("micro_batch", "parameters", "dtype"),
        shown=("memory_gb",),
    ),
    Concept(
        "time_left",
        Say("Time left"),
        Say("The steps left times the mean step, plus the evaluations and checkpoints still to come."),
        here=Say(
            "In this run, by the log: about {left_s:duration} (range: {left_range:durations}).",
            known("left_s", "left_range"),
        ),
        normal=Say(
            "It gets more certain with every line. It holds while the machine goes on as before: another "
            "program, heat, or a sleeping laptop change it."
        ),
        mistake=Say(
            "“The first step took a minute, so the run takes days.” The first one holds start-up and perhaps "
            "compiling: look at later ones."
        ),
        aliases=("eta", "remaining", "time_remaining", "eta_s"),
        related=("step_time", "evaluation"),
        shown=("left_s",),
    ),
)

"""How the weights are moved, and what can go wrong."""

from nanoscope.words.concepts.concept import Concept
from nanoscope.words.templates import First, Say, has, known

CONCEPTS = (
    Concept(
        "learning_rate",
        Say("Learning rate"),
        Say("How far each step moves the weights in the direction that lowers the loss."),
        here=First(
            Say("It stands at {lr:rate}; the highest of this run is {lr_highest:rate}.", known("lr", "lr_highest")),
            Say("It stands at {lr:rate}.", known("lr")),
        ),
        normal=Say(
            "Too high, and the loss jumps or diverges; too low, and it falls more slowly than it could. Try "
            "values that differ by a factor of about 3, in short runs with everything else the same."
        ),
        mistake=Say(
            "“A low learning rate is safe, so it is best.” In a fixed number of steps it may not get far: the "
            "best rate is often not far below the one that breaks training."
        ),
        aliases=("lr", "rate", "matrix_lr", "lr_share"),
        related=("warmup", "decay", "divergence"),
        shown=("lr",),
    ),
    Concept(
        "warmup",
        Say("Warm-up"),
        Say("Over the first steps, the learning rate rises from nearly zero to its full value."),
        here=First(
            Say(
                "Here it ends at step {warmup_step:plain}, after {warmup_share:percent} of the planned steps.",
                known("warmup_step", "warmup_share"),
            ),
            Say("Here it ends at step {warmup_step:plain}.", known("warmup_step")),
        ),
        normal=Say(
            "At first the gradients are large and the optimizer's averages rest on few of them, so that full "
            "steps would be rash. If the loss jumps early, warm up for longer; in a short run, keep it to a "
            "small part."
        ),
        mistake=Say(
            "“The loss hardly falls in the first lines, so something is wrong.” During warm-up the steps are "
            "still tiny: judge learning when it is over."
        ),
        aliases=("warm_up", "warmup_iters", "warmup_steps"),
        related=("learning_rate", "decay", "spike"),
        shown=("warmup_step",),
    ),
    Concept(
        "decay",
        Say("Learning-rate decay"),
        Say("Towards the end of a run the learning rate is lowered, often along a cosine or a straight line."),
        here=Say(
            "It stands at {lr_part:percent} of its highest value in this run, {lr_highest:rate}.",
            known("lr_part", "lr_highest"),
        ),
        normal=Say(
            "With smaller steps the loss settles, so it often falls once more near the end. Let the schedule "
            "end where the run ends ({total}), not earlier.",
            total="max_iters",
        ),
        mistake=Say(
            "“The loss is flat at the end, so the model can learn no more.” With a rate near zero nothing can "
            "move: a longer run with a longer schedule may get lower."
        ),
        aliases=("lr_decay", "schedule", "cooldown", "cosine", "min_lr", "lr_decay_iters"),
        related=("learning_rate", "warmup", "step"),
        shown=("lr_part",),
    ),
    Concept(
        "gradient_norm",
        Say("Gradient norm"),
        Say("The length of the gradient: how strongly a batch pulls at all the weights together."),
        here=Say(
            "In this run it is typically {norm:significant}; the highest was {norm_highest:significant} "
            "({norm_highest_step:at}).",
            known("norm", "norm_highest", "norm_highest_step"),
        ),
        normal=Say(
            "Its size depends on the model, so watch how it changes. Single peaks are common; if it keeps growing "
            "and the loss gets worse, lower the learning rate or warm up for longer."
        ),
        mistake=Say(
            "“It must shrink as the model learns.” It need not: it may stay level, or even grow a little, "
            "while the loss falls."
        ),
        aliases=("grad_norm", "norm", "gradient", "gradients", "gnorm"),
        related=("clipping", "divergence", "learning_rate"),
        shown=("norm",),
    ),
    Concept(
        "clipping",
        Say("Gradient clipping"),
        Say("A gradient longer than a limit is shortened to that limit; its direction stays."),
        here=First(
            Say(
                "The limit of this run is {clip:significant}; {clipped:percent} of the printed norms are above it.",
                known("clip", "clipped"),
            ),
            Say("The limit of this run is {clip:significant}.", known("clip")),
        ),
        normal=Say(
            "It keeps one odd batch from throwing the weights off; a limit of 1 is usual. If nearly every step is "
            "clipped, all batches pull equally hard; with Adam that often does no harm, and a higher limit is worth "
            "a try."
        ),
        mistake=Say(
            "“With clipping a run cannot diverge.” It limits single steps; a learning rate that is too high "
            "still diverges, many small steps later."
        ),
        aliases=("grad_clip", "clip", "gradient_clipping"),
        related=("gradient_norm", "spike"),
        shown=("clip",),
    ),
    Concept(
        "spike",
        Say("Loss spike"),
        Say("The loss jumps far above its noise for some steps; usually it comes back."),
        here=Say(
            "In this run ({spike_step:at}) it jumped from {spike_before:loss} to {spike_loss:loss}.",
            known("spike_step", "spike_before", "spike_loss"),
        ),
        normal=Say(
            "A spike that recovers rarely matters. If they get more frequent, lower the learning rate, warm "
            "up for longer, clip gradients, and look at the text of those batches."
        ),
        mistake=Say(
            "“Every high line is a spike.” Batches differ in difficulty: a spike stands out from the usual "
            "scatter of the lines around it."
        ),
        aliases=("loss_spike", "spikes", "jump"),
        related=("divergence", "clipping", "noise"),
        shown=("spike_step",),
    ),
    Concept(
        "divergence",
        Say("Divergence and NaN"),
        Say("The loss rises and stays up, or is no longer a number (NaN)."),
        here=First(
            Say("In this run the loss is not a number ({broken_step:at}).", known("broken_step")),
            Say("In this run the loss broke away ({diverged_step:at}).", known("diverged_step")),
        ),
        normal=Say(
            "Go back to a checkpoint from before, and continue with a lower learning rate or a longer "
            "warm-up. If the very first loss is NaN, look at the data and the precision instead."
        ),
        mistake=Say("“It will recover if I wait.” Once weights are NaN, every later step only makes more NaN."),
        aliases=("nan", "diverged", "diverge", "inf", "not_finite", "explosion"),
        related=("learning_rate", "spike", "dtype"),
        shown=("broken_step", "diverged_step"),
    ),
    Concept(
        "weight_decay",
        Say("Weight decay"),
        Say("Besides learning, each step shrinks the weights a little towards zero."),
        here=Say("In this run it is {weight_decay:typed}.", known("weight_decay")),
        normal=Say(
            "With AdamW, 0.1 is usual for GPTs; mostly only matrices decay, not biases and norms. It is "
            "rarely the first setting to try."
        ),
        mistake=Say(
            "“It is a penalty in the loss.” In AdamW it acts on the weights directly, so the printed loss "
            "does not contain it."
        ),
        aliases=("wd", "l2", "regularisation", "regularization"),
        related=("dropout", "learning_rate"),
        shown=(),
    ),
    Concept(
        "dropout",
        Say("Dropout"),
        Say(
            "While training, a random share of the values inside the model is set to zero, so that it relies "
            "on no single one."
        ),
        here=First(
            Say("In this run that share is {dropout:percent}.", has("dropout")),
            Say("In this run it is off.", known("dropout")),
        ),
        normal=Say(
            "Leave it at 0 for text that is read about once; 0.1 or 0.2 is usual where a small text is read "
            "many times. It slows learning, and puts overfitting off."
        ),
        mistake=Say("“It makes the generated text random.” It is off while evaluating and generating."),
        aliases=("drop_out", "dropout_rate"),
        related=("overfitting", "weight_decay"),
        shown=(),
    ),
    Concept(
        "fine_tuning",
        Say("Fine-tuning"),
        Say("Training that begins with a model that was already trained, to adapt it to another text."),
        normal=Say(
            "Use a lower learning rate than for a new model (try a third, then a tenth), few steps, and an "
            "evaluation before the "
            "first one: nanoGPT adapts GPT-2 XL to Shakespeare in 20 steps at 3e-5."
        ),
        mistake=Say("“It only adds to what the model knows.” It may also lose what the new text does not practise."),
        aliases=("finetuning", "finetune", "fine_tune", "pretraining"),
        related=("checkpoint", "overfitting", "learning_rate"),
        shown=(),
    ),
    Concept(
        "seed",
        Say("Seed"),
        Say("The number that random choices start from: the first weights, the batches, dropout."),
        here=Say("In this run it is {seed:plain}.", known("seed")),
        normal=Say(
            "The same seed, settings and machine give the same run, or nearly so. Before you believe a small "
            "difference, train with two or three seeds and see how far equal runs lie apart."
        ),
        mistake=Say("“I found a good seed.” The best of several is luck, and does not carry over to other settings."),
        aliases=("random_seed", "random"),
        related=("noise",),
        shown=(),
    ),
)

"""The model, what is kept of it, and the text that it writes."""

from nanoscope.words.concepts.concept import Concept
from nanoscope.words.templates import First, Say, Verbatim, has, known

CONCEPTS = (
    Concept(
        "parameters",
        Say("Parameters"),
        Say("The numbers inside the model that training adjusts, also called weights."),
        here=First(
            Say(
                "In this run: {parameters:large}; for each of them, {tokens_per_parameter:significant2} tokens "
                "have been read so far.",
                known("parameters", "tokens_per_parameter"),
            ),
            Say("In this run: {parameters:large}.", known("parameters")),
        ),
        normal=Say(
            "For a given amount of computing, about 20 tokens a parameter were found to be best, with large "
            "texts read about once (Chinchilla, 2022). With a small text, a smaller model overfits later."
        ),
        mistake=Say("“More parameters make a better model.” Only with enough text and steps to train them."),
        aliases=("params", "weights", "n_params", "model_size", "parameter"),
        related=("embedding", "layer", "flops"),
        shown=("parameters",),
    ),
    Concept(
        "embedding",
        Say("Embedding"),
        Say("The table that gives each token a list of numbers (a vector), as long as the model is wide."),
        here=First(
            Say(
                "In this run: {formula} numbers, tokens × width.",
                known("vocab_size", "n_embd"),
                formula=Verbatim("{vocab_size} × {n_embd} = {table}"),
            ),
            Say("Width of this run's model: {n_embd:number}.", known("n_embd")),
        ),
        normal=Say(
            "A wider model can hold more; the parameters of its layers and their arithmetic grow with the "
            "square of the width."
        ),
        mistake=Say(
            "“Somebody gave these numbers a meaning.” They begin at random and are learnt: tokens that are used "
            "alike tend to end up close to each other."
        ),
        aliases=("n_embd", "embeddings", "width", "d_model", "hidden_size"),
        related=("parameters", "vocabulary", "head"),
        shown=(),
    ),
    Concept(
        "layer",
        Say("Layer"),
        Say(
            "One block of the model: attention gathers from earlier tokens, then a small network works on "
            "each token by itself."
        ),
        here=Say("Layers of this run's model: {n_layer:number}.", known("n_layer")),
        normal=Say(
            "Time, memory and parameters grow in proportion. nanoGPT's model for tiny Shakespeare has 6 "
            "layers, GPT-2 has 12 to 48."
        ),
        mistake=Say(
            "“Each layer has its job: one for grammar, one for meaning.” Nobody assigns that: what a layer "
            "does is learnt, and shared between layers."
        ),
        aliases=("n_layer", "layers", "depth", "block", "transformer_block"),
        related=("parameters", "head", "embedding"),
        shown=(),
    ),
    Concept(
        "head",
        Say("Attention head"),
        Say("A part of attention that looks at the earlier tokens in its own way, with its share of the width."),
        here=Say(
            "Width of a head in this run: {formula}.",
            known("n_embd", "n_head", "head_size"),
            formula=Verbatim("{n_embd} / {n_head} = {head_size}"),
        ),
        normal=Say(
            "A width of 64 a head is common, as in GPT-2. {width} must be a multiple of {heads}.",
            width="n_embd",
            heads="n_head",
        ),
        mistake=Say(
            "“More heads make a larger model.” The width is only divided differently: the number of "
            "parameters stays the same."
        ),
        aliases=("n_head", "heads", "attention_head", "attention"),
        related=("layer", "embedding"),
        shown=(),
    ),
    Concept(
        "checkpoint",
        Say("Checkpoint"),
        Say("The model as it was at one step, written to disk, with what is needed to train on."),
        here=Say(
            "Checkpoints in this log: {checkpoints:number}, the last of them at {checkpoint_step:at}.",
            has("checkpoints", "checkpoint_step"),
        ),
        normal=Say(
            "Keep the one with the best validation loss besides the last. Save often enough that a power cut "
            "costs minutes, not hours."
        ),
        mistake=Say("“The last checkpoint is the best.” Not after validation loss has turned up."),
        aliases=("checkpoints", "save", "saving", "ckpt"),
        related=("resume", "val_loss"),
        shown=("checkpoints",),
    ),
    Concept(
        "resume",
        Say("Resuming"),
        Say("Training goes on from a checkpoint as if it had not stopped."),
        here=Say("This run was resumed at {resumed_step:at}.", known("resumed_step")),
        normal=Say(
            "It needs more than the weights: the optimizer's state, the step, and the place in the data. "
            "Without them the loss may jump at that step."
        ),
        mistake=Say(
            "“With a larger {total} it simply goes on.” Where the schedule ends with the run, it is stretched as "
            "well: the learning rate may jump up there.",
            total="max_iters",
        ),
        aliases=("resuming", "init_from", "continue"),
        related=("checkpoint", "decay"),
        shown=("resumed_step",),
    ),
    Concept(
        "temperature",
        Say("Temperature"),
        Say("How much chance plays a part when a model writes: low is predictable, high is varied."),
        example=Say(
            "Say one token has {usual:percent} and another the rest: at a temperature of {half:number1}, the "
            "first is chosen in {sharper:percent} of cases.",
            usual=0.8,
            sharper=0.8**2 / (0.8**2 + 0.2**2),
            half=0.5,
        ),
        normal=Say(
            "1 uses the model's own probabilities, 0 always takes the likeliest token, and soon repeats "
            "itself; nanoGPT and nanoscope write at 0.8."
        ),
        mistake=Say(
            "“A good temperature makes a better model.” It changes only which token is picked: loss and model "
            "stay as they are."
        ),
        aliases=("temp",),
        related=("top_k",),
        shown=(),
    ),
    Concept(
        "top_k",
        Say("Top-k"),
        Say("When a model writes, it picks only among the k likeliest tokens."),
        here=Say("This run has {vocab_size:number} tokens in all: a k above that excludes none.", known("vocab_size")),
        normal=Say(
            "nanoGPT and nanoscope take 200. A smaller k avoids odd tokens, a larger one allows more variety; "
            "1 always takes the likeliest."
        ),
        mistake=Say("“It improves the loss.” The loss is measured over all tokens, without any such choice."),
        aliases=("topk", "top_p", "nucleus"),
        related=("temperature", "vocabulary"),
        shown=(),
    ),
)

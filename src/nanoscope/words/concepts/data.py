"""What a step reads: tokens, batches, passes over the text."""

from nanoscope.words.concepts.concept import Concept
from nanoscope.words.templates import First, Say, Verbatim, has, known

CONCEPTS = (
    Concept(
        "step",
        Say("Step"),
        Say(
            "One update of the weights: read a batch, compute its loss and gradient, move the weights "
            "(nanoGPT prints it as iter)."
        ),
        here=First(
            Say(
                "This run has reached {last_step:plain} of {total_steps:plain}: {done:percent}.",
                known("last_step", "total_steps", "done"),
            ),
            Say("This run has reached {last_step:at}.", known("last_step")),
        ),
        normal=Say(
            "How many it takes depends on the text and the batch: go on while the validation loss falls by "
            "more than its noise."
        ),
        mistake=Say(
            "“Both runs are at step 2000, so they have learnt from equally much.” Only if their batches are "
            "equal: compare tokens, not steps."
        ),
        aliases=("iter", "iteration", "steps", "max_iters", "iterations"),
        related=("batch", "epoch", "step_time"),
        shown=("last_step",),
    ),
    Concept(
        "batch",
        Say("Batch"),
        Say("The text that one step learns from: a number of sequences, each as long as the context."),
        here=First(
            Say(
                "In this run a step reads {formula} tokens: sequences × context × accumulation.",
                has("multiplies"),
                formula=Verbatim("{batch_size} × {block_size} × {accumulation} = {tokens_per_step}"),
            ),
            Say("Tokens per step in this run: {tokens_per_step:number}.", known("tokens_per_step")),
        ),
        normal=Say(
            "A larger one gives calmer gradients and keeps the device busier, but fewer steps in the same "
            "time. When you change it, try the learning rate again."
        ),
        mistake=Say(
            "“A larger batch makes a better model.” After equally many tokens it often does not: it has made "
            "fewer steps."
        ),
        aliases=("tokens_per_step", "tokens_per_iter", "total_batch_size"),
        related=("micro_batch", "accumulation", "context"),
        shown=("tokens_per_step",),
    ),
    Concept(
        "micro_batch",
        Say("Micro-batch"),
        Say("The part of a batch that the device works on at once."),
        here=Say(
            "In this run: {formula} tokens at once.",
            known("batch_size", "block_size"),
            formula=Verbatim("{batch_size} × {block_size} = {at_once}"),
        ),
        normal=Say(
            "The largest that fits into memory is usually the fastest. If memory runs out, halve {size} and "
            "double {steps}: the batch stays the same.",
            size="batch_size",
            steps="gradient_accumulation_steps",
        ),
        mistake=Say(
            "“{size} is the whole batch.” In nanoGPT and nanoscope it counts the sequences of a micro-batch; "
            "a step may read several.",
            size="batch_size",
        ),
        aliases=("batch_size", "microbatch", "micro_batch_size"),
        related=("batch", "accumulation", "memory"),
        shown=(),
    ),
    Concept(
        "accumulation",
        Say("Gradient accumulation"),
        Say("The gradients of several micro-batches are averaged before the weights move once."),
        here=Say("Micro-batches per step in this run: {accumulation:number}.", known("accumulation")),
        normal=Say(
            "It makes large batches possible where memory is small: the step takes longer in proportion, and "
            "memory stays as it is."
        ),
        mistake=Say("“It makes training faster.” It reads no more tokens a second: it trades time for memory."),
        aliases=("gradient_accumulation", "gradient_accumulation_steps", "grad_accum", "accum"),
        related=("batch", "micro_batch", "memory"),
        shown=(),
    ),
    Concept(
        "context",
        Say("Context (block size)"),
        Say("How many tokens back the model can look when it predicts the next one."),
        here=Say("Tokens of context in this run: {block_size:number}.", known("block_size")),
        normal=Say(
            "A longer one takes memory and time, since attention compares each token with all before it. It "
            "helps only where the text has connections that long."
        ),
        mistake=Say(
            "“The model remembers all that it has written.” Whatever lies further back than the context plays no part."
        ),
        aliases=("block_size", "context_length", "seq_len", "sequence_length", "ctx", "max_seq_len"),
        related=("token", "memory", "batch"),
        shown=(),
    ),
    Concept(
        "epoch",
        Say("Epoch"),
        Say("One pass over the whole training text."),
        here=Say(
            "Passes of this run so far: {formula}.",
            known("epochs", "tokens_seen", "train_tokens"),
            formula=Verbatim("{tokens_seen:large} / {train_tokens:large} = {epochs:significant2}"),
        ),
        normal=Say(
            "Large texts are often read less than once. A small one may be read many times, and each time "
            "overfitting gets more likely: watch the validation loss."
        ),
        mistake=Say(
            "“After one epoch the model has seen every token once.” nanoGPT draws its batches at random, so "
            "some text comes twice and some not at all."
        ),
        aliases=("epochs", "passes", "pass"),
        related=("token", "overfitting", "step"),
        shown=("epochs",),
    ),
    Concept(
        "token",
        Say("Token"),
        Say("The unit that a model reads and writes: a character, a byte, or a piece of a word."),
        here=Say("Tokens that this run has learnt from so far: {tokens_seen:large}.", known("tokens_seen")),
        normal=Say(
            "GPT-2's tokens have about four characters in English text, and fewer in most other languages, so "
            "that the same sentence takes more of them."
        ),
        mistake=Say(
            "“A token is a word.” It may be a letter, a syllable, a space with the word after it, or a part "
            "of a letter's bytes."
        ),
        aliases=("tokens", "tokens_seen"),
        related=("tokenizer", "vocabulary", "epoch"),
        shown=("tokens_seen",),
    ),
    Concept(
        "tokenizer",
        Say("Tokenizer"),
        Say("It cuts text into tokens and numbers them, and joins them again."),
        here=Say("This run's tokenizer knows {vocab_size:number} different tokens.", known("vocab_size")),
        normal=Say(
            "Single characters suit small texts and small models; pieces of words (BPE) make the text "
            "shorter, and need more text, because each piece has to be learnt."
        ),
        mistake=Say(
            "“Losses of two tokenizers can be compared.” Each counts per its own token: compare bits per "
            "character instead."
        ),
        aliases=("tokeniser", "bpe", "encoding"),
        related=("token", "vocabulary", "bits_per_char"),
        shown=(),
    ),
    Concept(
        "vocabulary",
        Say("Vocabulary"),
        Say("All the different tokens that a model knows."),
        here=Say(
            "In this run: {vocab_size:number}. A model that only guesses among them has a loss of {guess:number2}.",
            known("vocab_size", "guess"),
        ),
        normal=Say(
            "The characters of tiny Shakespeare are 65, the tokens of GPT-2 50,257. A larger vocabulary makes "
            "texts shorter and the embedding larger."
        ),
        mistake=Say(
            "“The larger the vocabulary, the better.” Rare tokens come too seldom in a small text to be learnt."
        ),
        aliases=("vocab", "vocab_size", "vocabulary_size"),
        related=("guessing", "tokenizer", "embedding"),
        shown=("vocab_size",),
    ),
)

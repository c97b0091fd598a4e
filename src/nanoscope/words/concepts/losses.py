"""The losses and how they are measured."""

import math

from nanoscope.analysis.findings import Overfitting
from nanoscope.analysis.known import KnownNumbers
from nanoscope.words.concepts.concept import Concept
from nanoscope.words.templates import First, Renderer, Say, Sentences, Verbatim, Words, known
from nanoscope.words.verdicts import MESSAGES as VERDICTS


class VerdictOnOverfitting(Words):
    """What the run's own verdict says, word for word."""

    def write(self, numbers: KnownNumbers, language: Renderer) -> str:
        verdict = numbers.overfitting
        return "" if verdict is None else VERDICTS[type(verdict)].write(verdict, language)


CONCEPTS = (
    Concept(
        "loss",
        Say("Loss"),
        Say("How surprised the model is by the token that really comes next, on average: lower is better."),
        here=First(
            Say(
                "The loss of this run is {loss:loss}: on (geometric) average, the right token was given a "
                "probability of {chance:percent}.",
                known("loss", "chance"),
            ),
            Say("The loss of this run is {loss:loss}.", known("loss")),
        ),
        example=Say(
            "A loss of {example:number1} means that, on (geometric) average, the right token was given a "
            "probability of {chance:percent}.",
            example=2.0,
            chance=math.exp(-2.0),
        ),
        normal=Say(
            "It begins near the loss of guessing, falls fast, and then ever more slowly. No value is good for "
            "every text, because text and tokenizer set the scale: compare it with runs on the same data, or "
            "with what simple models reach on it."
        ),
        mistake=Say(
            "“My loss is lower than theirs, so my model is better.” Only on the same text, cut into the same "
            "tokens: a character is easier to predict than a piece of a word."
        ),
        aliases=("cross_entropy", "nll", "loss_value"),
        related=("perplexity", "guessing", "val_loss"),
        shown=("loss",),
    ),
    Concept(
        "perplexity",
        Say("Perplexity"),
        Say("The loss as a number of choices: among how many equally likely tokens the model seems to choose."),
        here=Say(
            "A loss of {loss:loss} is a perplexity of {perplexity:significant}: {formula}. The model is as "
            "unsure as if it chose among that many tokens.",
            known("loss", "perplexity"),
            formula=Verbatim("exp({loss:loss}) = {perplexity:significant}"),
        ),
        example=Say(
            "A loss of {example:number1} is a perplexity of {result:significant}: the model is as unsure as "
            "if it chose among that many tokens.",
            example=1.5,
            result=math.exp(1.5),
        ),
        normal=Say(
            "Guessing has the perplexity of the whole vocabulary, and certainty has 1. It says the same as "
            "the loss, so use whichever your readers know, always on the same text and tokenizer."
        ),
        mistake=Say(
            "“From 1000 to 900 is more progress than from 4 to 3.” In loss it is less: {small:number2} "
            "against {big:number2}. What counts is the ratio.",
            big=math.log(4 / 3),
            small=math.log(1000 / 900),
        ),
        aliases=("ppl", "pp"),
        related=("loss", "guessing", "bits_per_char"),
        shown=("perplexity",),
    ),
    Concept(
        "bits_per_char",
        Say("Bits per character"),
        Say("The loss in bits, shared out over characters: how many yes-or-no answers a character costs on average."),
        here=Say(
            "Here a token is a character, and {formula} bits per character.",
            known("bits_per_char"),
            formula=Verbatim("{loss:loss} / ln(2) = {bits_per_char:significant}"),
        ),
        example=Say(
            "If a token is a character, divide its loss by {ln2}: {formula}.",
            formula=Verbatim("{example:number1} / ln(2) = {bits:significant}", example=1.5, bits=1.5 / math.log(2)),
            ln2="ln(2)",
        ),
        normal=Say(
            "Because it counts characters, it compares models with different tokenizers on the same text, "
            "which loss and perplexity cannot do."
        ),
        mistake=Say(
            "“Bits per character and bits per byte are the same.” Only in plain English: in UTF-8 an Arabic "
            "letter takes two bytes and a Devanagari letter three, so bits per byte are lower there."
        ),
        aliases=("bpc", "bits", "bits_per_character", "bits_per_byte", "bpb"),
        related=("loss", "tokenizer"),
        shown=("bits_per_char",),
    ),
    Concept(
        "guessing",
        Say("Guessing: ln(vocabulary)"),
        Say("The loss of a model that knows nothing and finds every token equally likely."),
        here=Say(
            "With this run's vocabulary it is {formula}.",
            known("vocab_size", "guess"),
            formula=Verbatim("ln({vocab_size:plain}) = {guess:number2}"),
        ),
        example=Say(
            "With GPT-2's vocabulary it is {formula}.",
            formula=Verbatim("ln({size:plain}) = {guess:number2}", size=50257, guess=math.log(50257)),
        ),
        normal=Say(
            "A new model should begin close to it. If it begins far above, look at the initialisation and the "
            "data; if it stays there, nothing is being learnt: look at the learning rate."
        ),
        mistake=Say(
            "“The loss fell by a third, so the model knows the language.” Much of the first fall is only how "
            "frequent each token is; order and meaning come later, in smaller steps."
        ),
        aliases=("ln_vocab", "uniform_loss", "uniform", "ln", "ln_vocabulary", "guess"),
        related=("loss", "vocabulary"),
        shown=("guess",),
    ),
    Concept(
        "train_loss",
        Say("Training loss"),
        Say("The loss on the text that the model learns from; a printed line is often that of a single batch."),
        here=First(
            Say(
                "Here it is {train:loss}, and single lines lie about {noise:significant2} above or below their trend.",
                known("train", "noise"),
            ),
            Say("Here it is {train:loss}.", known("train")),
        ),
        normal=Say(
            "It jumps from line to line because batches differ, so look at the mean of many lines. It should "
            "keep falling while there is something left to learn from this text."
        ),
        mistake=Say(
            "“The training loss is low, so the model is good.” It also falls when the model learns its text "
            "by heart; only the validation loss shows what it can do with new text."
        ),
        aliases=("training_loss", "training"),
        related=("loss", "val_loss", "noise"),
        shown=("train",),
    ),
    Concept(
        "val_loss",
        Say("Validation loss"),
        Say("The loss on text that was held back, which the model never learns from: how well it copes with new text."),
        here=Say(
            "The best of this run was {best_val:loss} ({best_step:at}), the last is {val:loss}.",
            known("val", "best_val", "best_step"),
        ),
        normal=Say(
            "At first it falls with the training loss and stays a little above it. If it turns up while "
            "training loss still falls, use the checkpoint of its best value; more text, more dropout or a "
            "smaller model may lower it."
        ),
        mistake=Say(
            "“Validation below training loss must be a bug.” Not always: dropout is off while evaluating. But "
            "if both are measured alike, over many batches, the two texts may overlap, or one of them may be "
            "easier."
        ),
        aliases=("validation_loss", "validation", "val", "eval_loss", "test_loss"),
        related=("train_loss", "overfitting", "noise"),
        shown=("val",),
    ),
    Concept(
        "overfitting",
        Say("Overfitting"),
        Say(
            "The model fits its training text at the expense of new text: training loss keeps falling, validation "
            "loss rises."
        ),
        here=First(
            Sentences(
                First(
                    Say("It shows here.", lambda numbers: isinstance(numbers.overfitting, Overfitting)),
                    Say("It does not show here yet.", known("overfitting")),
                ),
                VerdictOnOverfitting(),
            ),
            Say(
                "This run has one evaluation, which can't show whether validation loss has turned up.",
                lambda numbers: numbers.evaluations == 1,
            ),
            Say(
                "The evaluations of this run do not show it: the best validation loss is {best_val:loss} "
                "({best_step:at}), the last {val:loss}.",
                known("val", "best_val", "best_step"),
            ),
        ),
        normal=Say(
            "A small text that is read many times brings it about. Keep the checkpoint with the best "
            "validation loss, and try more text, more dropout, a smaller model, or fewer steps."
        ),
        mistake=Say(
            "“Validation loss above training loss is overfitting.” Such a gap is normal, and wider where the "
            "validation text, often the end of a book, is of another kind. Overfitting begins where validation "
            "loss turns up; only a validation loss several times the training loss shows by itself that it has."
        ),
        aliases=("overfit", "memorising", "memorizing"),
        related=("gap", "val_loss", "dropout", "epoch"),
        shown=("overfitting",),
    ),
    Concept(
        "gap",
        Say("Generalisation gap"),
        Say("How far the validation loss lies above the training loss."),
        here=Say(
            "At the last evaluation of this run: {formula}.",
            known("gap", "val", "eval_train"),
            formula=Verbatim("{val:loss} − {eval_train:loss} = {gap:loss}"),
        ),
        normal=Say(
            "It grows when the same text is read again and again. While the validation loss still falls, a "
            "growing gap does no harm."
        ),
        mistake=Say(
            "“The smaller the gap, the better the model.” A model that has learnt nothing has no gap at all: "
            "what counts is the validation loss."
        ),
        aliases=("generalisation_gap", "generalization_gap", "generalisation"),
        related=("val_loss", "train_loss", "overfitting"),
        shown=("gap",),
    ),
    Concept(
        "noise",
        Say("Noise and standard error"),
        Say("How much a measured loss would change if other batches of the same text had been measured."),
        here=First(
            Say(
                "The last evaluation has a standard error of {stderr:significant2}: in about 19 of 20 such "
                "measurements, the loss over the whole validation text is at most {twice:significant2} away.",
                known("stderr", "twice"),
            ),
            Say(
                "Single lines of this run's training loss lie about {noise:significant2} above or below their trend.",
                known("noise"),
            ),
        ),
        normal=Say(
            "Evaluate more batches to measure more exactly: four times as many halve the error. To compare "
            "two models, measure them on the same batches."
        ),
        mistake=Say(
            "“It is lower by 0.003, so it is better.” A difference smaller than its error may be chance, and "
            "a run with another seed differs too."
        ),
        aliases=("standard_error", "stderr", "error", "std"),
        related=("evaluation", "seed", "val_loss"),
        shown=("stderr",),
    ),
    Concept(
        "evaluation",
        Say("Evaluation"),
        Say("Training pauses, and the loss is measured over many batches without learning from them."),
        here=First(
            Say(
                "Evaluations in this run: {evaluations:number}. One takes about {eval_s:duration}; together they "
                "are {eval_share:percent} of the time.",
                known("evaluations", "eval_s", "eval_share"),
            ),
            Say("Evaluations in this run: {evaluations:number}.", known("evaluations")),
        ),
        normal=Say(
            "Many trainers count its time into a neighbouring step, which then looks slow. If it takes too "
            "large a share, raise {interval} (evaluate less often) or lower {batches} (measure fewer "
            "batches).",
            interval="eval_interval",
            batches="eval_iters",
        ),
        mistake=Say(
            "“Every few hundred steps my machine gets slow.” If it happens at every evaluation, nothing is "
            "wrong with the machine."
        ),
        aliases=("eval", "eval_interval", "eval_iters", "evaluate"),
        related=("val_loss", "noise", "step_time"),
        shown=("evaluations",),
    ),
)

"""The last lines of a training run: how it did, by the verdicts that `explain` gives, and what to do next."""

from collections.abc import Sequence

from nanoscope.messages import RIGHT_TO_LEFT_MARK, Message, Shown


def closing_lines(folder: str) -> Sequence[Shown]:
    """The verdicts on a run that has ended, then how to train it longer if more steps may help, or else the advice."""
    from nanoscope.findings.analyse import analyse  # late: whoever trains imports this before the first iteration
    from nanoscope.findings.declared import Improving, TooShort
    from nanoscope.runs.console import resume_command
    from nanoscope.runs.reader import read_log
    from nanoscope.words.language import choose_language
    from nanoscope.words.sentences import sentence, verdict_title

    log, language = read_log(folder), choose_language()
    run = log.runs[-1]
    analysis = analyse(run, log=log)
    verdicts = analysis.verdicts
    lines = [verdict_title(v, language) + language.say(". ") + sentence(v, language) for v in verdicts]
    end = run.details.end if run.details else None
    longer = end is not None and any(isinstance(verdict, Improving | TooShort) for verdict in verdicts)
    if not longer:  # what would only have saved time is of no use any more
        lines += [sentence(advice, language) for advice in analysis.advice if advice.saves_s is None]
    mark = RIGHT_TO_LEFT_MARK if language.right_to_left else ""
    shown: list[Shown] = [mark + line for line in lines]
    if longer and end is not None:
        shown.append(Message("train longer: {command}", command=resume_command(folder, end.resume_with)))
    return shown

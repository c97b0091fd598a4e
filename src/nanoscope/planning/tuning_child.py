"""The child process of tuning_rig.py: sets up a run as `nanoscope train` does, then measures each time it is asked to.

A question is a line of standard input, an answer one of standard output. It ends when its input does.
"""

import os
import sys
import time
from statistics import median

import msgspec

from nanoscope.config_sources import Resolved
from nanoscope.errors import JobError, UsageError
from nanoscope.planning.steps_child import SetUp, begin, peak, problem_of, set_up, update
from nanoscope.planning.tuning_candidates import Facts
from nanoscope.planning.tuning_rig import Answer, Question

LONG_SECONDS = 5.0  # for a micro-batch: beside it, what happens once doesn't count


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else prints something must not disturb the answers
    questions = iter(sys.stdin.buffer.readline, b"")
    job, config = begin(next(questions))

    def answer(what: Facts | Answer) -> None:
        answers.write(msgspec.json.encode(what) + b"\n")
        answers.flush()

    try:
        from nanoscope.planning.request import with_shape_of_weights

        config = with_shape_of_weights(Resolved(config, "", typed={}, given=job.config))
        trial = Trial(set_up(job, config))
        answer(trial.facts())
        for line in questions:
            question = msgspec.json.decode(line, type=Question)
            seconds = (trial.step if question.kind == "step" else trial.evaluation)(question.seconds)
            answer(Answer(seconds=seconds, memory_bytes=peak(trial.session.machine.device)))
    except (JobError, UsageError, RuntimeError, MemoryError) as error:
        answer(Answer(problem=problem_of(error)[0]))
    os._exit(0)  # nothing to clean up, and a thread of torch's may not end by itself


class Trial:
    """Iterations and evaluations of a run that keeps nothing."""

    def __init__(self, ready: SetUp) -> None:
        self.ready, self.session = ready, ready.session
        self._iterations = 0
        fastest = ready.warmed_up.fastest
        if fastest.seconds / fastest.sequences * self.session.config.batch_size < LONG_SECONDS:
            self._iterate(0.0)  # makes the optimizer's state, and fills caches: a matter of a second

    def facts(self) -> Facts:
        import torch

        from nanoscope.hardware.memory import available_bytes

        machine, learner, evaluator = self.session.machine, self.session.engine, self.session.evaluator
        compiled = learner.model is not learner.plain_model
        return Facts(
            device=machine.choice.type,
            device_name=str(machine.choice.device_name),
            dtype=machine.choice.dtype,
            compiled=compiled,
            threads=torch.get_num_threads(),
            eval_batch=evaluator.batch,
            windows=sum(len(starts) for starts in evaluator.starts.values()),
            compile_seconds=self.ready.warm_up_seconds if compiled else 0.0,
            available_bytes=available_bytes(machine.device),
            memory_bytes=peak(machine.device),
            sequence_bytes=self.ready.warmed_up.memory.each,
            note=", ".join(self.ready.notes),
        )

    def step(self, seconds: float) -> float:
        """The median of some iterations."""
        until, found = time.perf_counter() + seconds, list[float]()
        while not found or time.perf_counter() < until:
            found.append(self._iterate(seconds))
        return median(found)

    def _iterate(self, seconds: float) -> float:
        """One iteration. After so many seconds the rest of its micro-batches is extrapolated."""
        session, micro = self.session, list[float]()
        began = time.perf_counter()
        batches = session.loader.next()
        session.machine.synchronize()
        before = waited = time.perf_counter()
        for batch in batches:
            session.engine.passes([batch], self._iterations)
            session.machine.synchronize()
            now = time.perf_counter()
            micro.append(now - before)
            before = now
            if now - began > seconds:
                break
        update(session, self._iterations)
        session.machine.synchronize()
        self._iterations += 1
        later = median(micro[1:] or micro)  # they add their gradients to the first one's
        return time.perf_counter() - before + (waited - began) + sum(micro) + (len(batches) - len(micro)) * later

    def evaluation(self, seconds: float) -> float:
        """A whole evaluation, extrapolated from some batches."""
        import torch

        evaluator, model = self.session.evaluator, self.session.engine.plain_model
        windows, done = sum(len(starts) for starts in evaluator.starts.values()), 0
        model.eval()
        with torch.no_grad():
            began = time.perf_counter()
            for name in evaluator.starts:
                for losses in evaluator.window_losses(model, name):
                    self.session.machine.synchronize()
                    done += len(losses)
                    if time.perf_counter() - began > seconds:
                        break
            spent = time.perf_counter() - began
        model.train()
        return spent * windows / done


if __name__ == "__main__":
    main()

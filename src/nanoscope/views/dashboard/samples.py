"""What a run writes by now: a child loads torch and the newest checkpoint, its text is passed on as it grows."""

import asyncio
import codecs
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from nanoscope.errors import JobError
from nanoscope.untrusted import printable

LONGEST_SECONDS = 300
PROMPT_BYTES = 20_000
MOST_TOKENS = 2_000


class Writer:
    """One text at a time, on one core: training needs the others."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    @property
    def busy(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def write(self, run: Path, prompt: str, max_new_tokens: int, temperature: float) -> AsyncIterator[str]:
        """Pieces of the text. JobError, before the first, says why there is none."""
        words = ["sample", str(run), "--prompt=-", "--checkpoint=last"]
        words += [f"--max_new_tokens={max_new_tokens}", f"--temperature={temperature}"]
        # The prompt goes through standard input: as an argument 'FILE:…' would be read from disk.
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "nanoscope", *words,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
        )  # fmt: skip
        stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
        if stdin is None or stdout is None or stderr is None:
            raise JobError("no pipes")  # cannot be: all three were asked for
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                stdin.write(prompt.encode("utf-8", "replace"))
                stdin.close()
                decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
                wrote = False
                while piece := await stdout.read(4096):
                    wrote = True
                    yield printable(decoder.decode(piece))
                if not wrote:
                    said = (await stderr.read(4000)).decode("utf-8", "replace").strip().splitlines()
                    raise JobError(printable("\n".join(line.removeprefix("nanoscope: ").strip() for line in said[-3:])))
        except TimeoutError:
            return
        finally:
            if process.returncode is None:  # nobody reads it any more, or it takes too long
                process.kill()

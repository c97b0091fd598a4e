"""Text from the newest checkpoint of a run, streamed from a child process that loads torch."""

import asyncio
import codecs
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from pathlib import Path

from nanoscope.errors import JobError
from nanoscope.messages import joined, printable, to_print

MAX_SECONDS = 300
PROMPT_BYTES = 20_000
MAX_TOKENS = 2_000


class Writer:
    """One text at a time, on one core: training needs the others."""

    def __init__(self) -> None:
        self.busy = False

    def write(self, run: Path, prompt: str, max_new_tokens: int, temperature: float) -> AsyncGenerator[str, None]:
        """Pieces of the text. Raises JobError before the first piece if there is none."""
        self.busy = True  # at once, not with the first piece: others may ask in between
        return self._pieces(run, prompt, max_new_tokens, temperature)

    async def _pieces(
        self, run: Path, prompt: str, max_new_tokens: int, temperature: float
    ) -> AsyncGenerator[str, None]:
        # The prompt goes through standard input: as an argument 'FILE:…' would be read from disk.
        words = ["sample", str(run), "--prompt=-", "--checkpoint=last"]
        words += [f"--max_new_tokens={max_new_tokens}", f"--temperature={temperature}"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
        process = None
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "nanoscope", *words, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment
            )
            async with asyncio.timeout(MAX_SECONDS):
                async for piece in _spoken(process, prompt):
                    yield piece
        except TimeoutError:
            return
        finally:
            self.busy = False
            if process is not None and process.returncode is None:  # the reader has left, or it takes too long
                process.kill()


async def _spoken(process: asyncio.subprocess.Process, prompt: str) -> AsyncGenerator[str, None]:
    """What the child writes. If it writes nothing, its error message is raised."""
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    assert stdin
    assert stdout
    assert stderr
    stdin.write(prompt.encode("utf-8", "replace"))
    stdin.close()
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    wrote = False
    while piece := await stdout.read(4096):
        wrote = True
        yield printable(decoder.decode(piece))
    if not wrote:
        said = (await stderr.read(4000)).decode("utf-8", "replace").strip().splitlines()
        lines = [to_print(line).lstrip("\u200f").removeprefix("nanoscope: ").strip() for line in said[-3:]]
        raise JobError(joined("\n", lines))

"""Text from the newest checkpoint of a run, streamed from a child process that loads torch."""

import asyncio
import codecs
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from nanoscope.errors import JobError
from nanoscope.messages import joined, printable, to_print

MAX_SECONDS = 300
PROMPT_BYTES = 20_000
MAX_TOKENS = 2_000


class SampleRequest(msgspec.Struct):
    """What the page asks for."""

    run: str
    prompt: str = ""
    max_new_tokens: Annotated[int, Meta(ge=1, le=MAX_TOKENS)] = 300
    temperature: Annotated[float, Meta(ge=0, le=10)] = 0.8


class Writer:
    """One text at a time, on one core: training needs the others."""

    def __init__(self) -> None:
        self.busy = False

    def write(self, run: Path, asked: SampleRequest) -> AsyncGenerator[str, None]:
        """Pieces of the text. Raises JobError before the first piece if there is none."""
        self.busy = True  # at once, not with the first piece: others may ask in between
        return self._pieces(run, asked)

    async def _pieces(self, run: Path, asked: SampleRequest) -> AsyncGenerator[str, None]:
        # The prompt goes through standard input: as an argument 'FILE:…' would be read from disk.
        words = ["sample", str(run), "--prompt=-", "--checkpoint=last"]
        words += [f"--max_new_tokens={asked.max_new_tokens}", f"--temperature={asked.temperature}"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
        process = None
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "nanoscope", *words, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment
            )
            async with asyncio.timeout(MAX_SECONDS):
                async for piece in _spoken(process, asked.prompt or "\n"):
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

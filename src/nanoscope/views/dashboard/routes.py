"""The routes of `nanoscope watch`. They only read run folders, and never load torch."""

import asyncio
import math
import re
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from nanoscope.errors import JobError
from nanoscope.findings.analyse import Options
from nanoscope.messages import LANGUAGES, printable, to_print
from nanoscope.runs.events import NewerVersionError
from nanoscope.views.dashboard.folder import ListedRun, WatchedFolder
from nanoscope.views.dashboard.guard import Guard
from nanoscope.views.dashboard.logs import KeptLogs
from nanoscope.views.dashboard.notify import Watcher
from nanoscope.views.dashboard.reports import Reports, StillReadingError, gone
from nanoscope.views.dashboard.samples import PROMPT_BYTES, SampleRequest, Writer
from nanoscope.views.report.html import render, render_live, static_files
from nanoscope.views.report.payload import page_languages

LOG_LIMIT_BYTES = 32_000_000
MOST_HELD_BYTES = 3 * LOG_LIMIT_BYTES
BODY_SECONDS = 120.0  # to send a log
POLL_SECONDS = 2.0  # each look takes time from training
CATCH_UP_SECONDS = 0.5  # while runs are still to be read
POLL_LEISURE = 10  # a look at the runs that took a second is repeated after ten seconds at the earliest
MAX_SHOWN = 50  # runs overlaid
VIEW_CHARACTERS = 4000  # of the state of the charts, in an address


class _Pasted(msgspec.Struct):
    """What is asked with a log."""

    name: str = ""
    max_iters: Annotated[int, Meta(ge=1, lt=10**13)] | None = None
    device: str = ""


class Dashboard:
    """The routes over one folder."""

    def __init__(self, root: Path, language: str) -> None:
        self.folder = WatchedFolder(root)
        self.logs = KeptLogs(root)
        self.reports = Reports(self.folder, self.logs)
        self.writer = Writer()
        self.language = language
        self._rest_seconds = POLL_SECONDS
        self._one_log = asyncio.Lock()  # a large pasted log takes seconds and memory: one at a time
        self._held_bytes = 0  # of logs that are being sent, or wait for their turn

    def routes(self) -> list[Route]:
        return [
            Route("/", self.index),
            Route("/static/{name}", self.static),
            Route("/api/runs", self.runs),
            Route("/api/stream", self.stream),
            Route("/api/report", self.report),
            Route("/report.html", self.report_file),
            Route("/api/explain", self.explain, methods=["POST"]),
            Route("/api/log", self.remove_log, methods=["DELETE"]),
            Route("/api/sample", self.sample, methods=["POST"]),
        ]

    def _language(self, request: Request) -> str:
        wanted = request.query_params.get("lang", self.language)
        return wanted if wanted in LANGUAGES else self.language

    async def index(self, request: Request) -> Response:
        return HTMLResponse(render_live(self.language))

    async def static(self, request: Request) -> Response:
        file = static_files().get(request.path_params["name"])
        if file is None:
            raise gone()
        kind = "text/css" if file.suffix == ".css" else "text/javascript"
        return FileResponse(file, media_type=f"{kind}; charset=utf-8")

    # --- runs ---

    async def runs(self, request: Request) -> Response:
        return _json(self._news(await self._look()))

    async def stream(self, request: Request) -> Response:
        """The whole list first, then what has changed in it."""

        async def changes() -> AsyncIterator[ServerSentEvent]:
            sent: dict[str, ListedRun] = {}
            columns: list[str] | None = None
            while True:
                listed = await self._look()
                if columns != self.folder.columns:
                    columns = self.folder.columns
                    yield ServerSentEvent(_encoded(self._news(listed)), event="runs", retry=2000)
                elif listed != sent:
                    changed = [run for name, run in listed.items() if sent.get(name) != run]
                    news = {
                        "runs": changed,
                        "gone": [name for name in sent if name not in listed],
                        "total": self._total,
                    }
                    yield ServerSentEvent(_encoded(news), event="changes")
                sent = listed
                await asyncio.sleep(self._rest_seconds)

        return EventSourceResponse(changes(), ping=20)

    async def _look(self) -> dict[str, ListedRun]:
        """The entries of the list, by name."""
        began = time.monotonic()
        listed = await run_in_threadpool(self.folder.listed)
        rest = max(POLL_SECONDS, POLL_LEISURE * (time.monotonic() - began))
        self._rest_seconds = CATCH_UP_SECONDS if self.folder.catching_up else rest
        return self.logs.listed() | listed

    @property
    def _total(self) -> int:
        """All runs and logs; the list has only the newest of very many."""
        return self.folder.total + len(self.logs.listed())

    def _news(self, listed: Mapping[str, ListedRun]) -> dict[str, object]:
        """The whole list."""
        folder = self.folder
        return {
            "runs": list(listed.values()),
            "total": self._total,
            "columns": folder.columns,
            "common": folder.common,
            "folder": printable(folder.root.name),
        }

    async def report(self, request: Request) -> Response:
        language = self._language(request)
        return _json(await run_in_threadpool(self.reports.answer, _names(request), language, (language,)))

    async def report_file(self, request: Request) -> Response:
        names, language = _names(request), self._language(request)
        payload = await run_in_threadpool(self.reports.answer, names, language, tuple(LANGUAGES), math.inf)
        for run in payload.runs:
            run.resume = None  # a folder of this machine is of no use to others
        payload.languages = page_languages()
        payload.view = request.query_params.get("view", "")[:VIEW_CHARACTERS]
        named = re.sub(r"[^\w.-]", "-", "-".join(run.name for run in payload.runs[:3]), flags=re.ASCII)
        name = f"-{named}"[:60].strip(".-") or "log"
        page = await run_in_threadpool(render, payload)
        return HTMLResponse(page, headers={"content-disposition": f'attachment; filename="nanoscope-{name}.html"'})

    # --- logs and samples ---

    async def explain(self, request: Request) -> Response:
        """Keep a log; `log` is its name in addresses."""
        asked = msgspec.convert(dict(request.query_params), _Pasted, strict=False)
        options, name = Options(asked.max_iters, asked.device[:100] or None), printable(asked.name[:100])
        async with self._received(request) as content, self._one_log:
            key = await run_in_threadpool(self.reports.add_log, content, name, options)
        return _json({"log": key})

    @asynccontextmanager
    async def _received(self, request: Request) -> AsyncIterator[bytearray]:
        """The log that was sent. What is held of all logs that are being sent or wait is bounded."""
        content = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for piece in _pieces(request, LOG_LIMIT_BYTES):
                    content += piece
                    self._held_bytes += len(piece)
                    if self._held_bytes > MOST_HELD_BYTES:
                        raise HTTPException(503, "crowded")
            yield content
        except TimeoutError:
            raise HTTPException(408, "crowded") from None
        finally:
            self._held_bytes -= len(content)

    async def remove_log(self, request: Request) -> Response:
        if not self.logs.remove(request.query_params.get("log", "")):
            raise gone()
        return _json({})

    async def sample(self, request: Request) -> Response:
        content = b"".join([piece async for piece in _pieces(request, PROMPT_BYTES)])
        asked = msgspec.json.decode(content, type=SampleRequest)
        path = self.folder.path(asked.run)
        if path is None:
            raise gone()
        if self.writer.busy:
            raise HTTPException(409, "busy")
        pieces = self.writer.write(path, asked)
        beginning = asyncio.ensure_future(anext(pieces, ""))  # loading torch and the model takes seconds
        while not (await asyncio.wait({beginning}, timeout=CATCH_UP_SECONDS / 2))[0]:
            if await request.is_disconnected():
                beginning.cancel()
                return Response(status_code=499)
        try:
            first = await beginning
        except JobError as error:
            return _json({"error": "sample", "message": to_print(error.text)}, 422)

        async def text() -> AsyncIterator[str]:
            try:
                yield first
                async for piece in pieces:
                    yield piece
            finally:
                await pieces.aclose()

        return StreamingResponse(text(), media_type="text/plain; charset=utf-8")


def make_app(
    root: Path, language: str, names: frozenset[str], token: str | None, watcher: Watcher | None = None
) -> ASGIApp:
    """The application; `names` are the host names it answers to, `watcher` reports what happens to the runs."""
    dashboard = Dashboard(root, language)

    async def watch() -> None:
        """Look at the runs for as long as the server runs, whether somebody has the page open or not."""
        while watcher:
            await run_in_threadpool(watcher.look, await run_in_threadpool(dashboard.folder.look))
            await asyncio.sleep(POLL_SECONDS)

    @asynccontextmanager
    async def watching(app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(watch())
        yield
        task.cancel()

    async def refused(request: Request, error: Exception) -> Response:
        match error:
            case HTTPException():
                return _json({"error": _CODES.get(error.status_code, error.detail)}, error.status_code)
            case msgspec.MsgspecError() | RecursionError():  # what was asked makes no sense
                return _json({"error": "bad_request"}, 422)
            case StillReadingError():
                return _json({"done": error.done, "of": error.of}, 202)
            case NewerVersionError():
                return _json({"error": "newer", "message": to_print(error.text)}, 422)
            case JobError():  # nothing in it that can be read
                return _json({"error": "no_training"}, 422)
        print(f"nanoscope: {request.url.path}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return _json({"error": "failed"}, 500)

    refusals = (HTTPException, msgspec.MsgspecError, RecursionError, JobError, StillReadingError, Exception)
    handlers = dict.fromkeys(refusals, refused)
    # The guard is outermost, so that error responses pass through it too.
    app = Starlette(routes=dashboard.routes(), exception_handlers=handlers, lifespan=watching)
    return Guard(app, names, token)


_CODES: Mapping[int, str] = {404: "gone", 405: "method"}


def _names(request: Request) -> list[str]:
    names = request.query_params.getlist("run")
    if not 0 < len(names) <= MAX_SHOWN:
        raise HTTPException(422, "bad_request")
    return names


def _encoded(said: object) -> str:
    return msgspec.json.encode(said).decode()


def _json(said: object, status: int = 200) -> Response:
    return Response(_encoded(said), status, media_type="application/json; charset=utf-8")


async def _pieces(request: Request, limit_bytes: int) -> AsyncIterator[bytes]:
    """The body; one that is too large is not read to the end."""
    left = limit_bytes
    if int(request.headers.get("content-length", "0")) > limit_bytes:
        raise HTTPException(413, "too_large")
    async for piece in request.stream():
        left -= len(piece)
        if left < 0:
            raise HTTPException(413, "too_large")
        yield piece

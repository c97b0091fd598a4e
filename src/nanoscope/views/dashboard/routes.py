"""The routes of `nanoscope watch`. They only read run folders, and never load torch."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
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
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from nanoscope.errors import JobError
from nanoscope.findings.analyse import Options
from nanoscope.messages import LANGUAGES, printable, to_print
from nanoscope.runs.events import NewerVersionError
from nanoscope.views.dashboard.folder import WatchedFolder
from nanoscope.views.dashboard.guard import Guard
from nanoscope.views.dashboard.logs import KeptLogs, TooLargeError
from nanoscope.views.dashboard.notify import Facts, Watcher
from nanoscope.views.dashboard.reports import GoneError, NoTrainingError, Reports, StillReadingError
from nanoscope.views.dashboard.samples import MAX_TOKENS, PROMPT_BYTES, Writer
from nanoscope.views.dashboard.shell import page, scripts_and_styles
from nanoscope.views.report.html import render
from nanoscope.views.report.payload import Payload, page_languages
from nanoscope.views.report.payload import payload as report_payload

LOG_LIMIT_BYTES = 32_000_000
MOST_HELD_BYTES = 3 * LOG_LIMIT_BYTES
BODY_SECONDS = 120.0  # to send a log
POLL_SECONDS = 2.0  # each look takes time from training
CATCH_UP_SECONDS = 0.5  # while runs are still to be read
POLL_LEISURE = 10  # a look at the runs that took a second is repeated after ten seconds at the earliest
MAX_SHOWN = 50  # runs overlaid
VIEW_CHARACTERS = 4000  # of the state of the charts, in an address


class _SampleRequest(msgspec.Struct):
    run: str
    prompt: str = ""
    max_new_tokens: Annotated[int, Meta(ge=1, le=MAX_TOKENS)] = 300
    temperature: Annotated[float, Meta(ge=0, le=10)] = 0.8


class Dashboard:
    """The routes over one folder."""

    def __init__(self, root: Path, language: str) -> None:
        self.folder = WatchedFolder(root)
        self.logs = KeptLogs(root)
        self.reports = Reports(self.folder, self.logs)
        self.writer = Writer()
        self.language = language
        self._look_seconds = 0.0
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
        return HTMLResponse(page(self.language))

    async def static(self, request: Request) -> Response:
        file = scripts_and_styles().get(request.path_params["name"])
        if file is None:
            raise HTTPException(404, "gone")
        kind = "text/css" if file.suffix == ".css" else "text/javascript"
        return FileResponse(file, media_type=f"{kind}; charset=utf-8")

    # --- runs ---

    async def runs(self, request: Request) -> Response:
        return Response(self._json(await self._look()), media_type="application/json")

    async def stream(self, request: Request) -> Response:
        """The whole list first, then what has changed in it."""

        async def changes() -> AsyncIterator[ServerSentEvent]:
            sent: dict[str, str] | None = None
            columns: list[str] = []
            while True:
                listed = await self._look()
                if sent is None or columns != self.folder.columns:
                    columns = list(self.folder.columns)
                    yield ServerSentEvent(self._json(listed), event="runs", retry=2000)
                elif listed != sent:
                    changed = {name: text for name, text in listed.items() if sent.get(name) != text}
                    gone = [name for name in sent if name not in listed]
                    yield ServerSentEvent(self._json(changed, gone), event="changes")
                sent = listed
                rest = max(POLL_SECONDS, POLL_LEISURE * self._look_seconds)
                await asyncio.sleep(CATCH_UP_SECONDS if self.folder.catching_up else rest)

        return EventSourceResponse(changes(), ping=20)

    async def _look(self) -> dict[str, str]:
        """The entries of the list as JSON, by name."""
        began = time.monotonic()
        entries = await run_in_threadpool(self.folder.look)
        self._look_seconds = time.monotonic() - began
        return self.logs.entries() | {name: entry.text for name, entry in entries.items()}

    @property
    def _total(self) -> int:
        """All runs and logs; the list has only the newest of very many."""
        return self.folder.total + len(self.logs.entries())

    def _json(self, listed: Mapping[str, str], gone: Sequence[str] | None = None) -> str:
        if gone is not None:
            return f'{{"runs":[{",".join(listed.values())}],"gone":{json.dumps(gone)},"total":{self._total}}}'
        facts = {
            "total": self._total,
            "columns": self.folder.columns,
            "common": self.folder.common,
            "folder": printable(self.folder.root.name),
        }
        return f'{{"runs":[{",".join(listed.values())}],{json.dumps(facts)[1:]}'

    async def report(self, request: Request) -> Response:
        return _json(await run_in_threadpool(self.reports.answer, _names(request), self._language(request)))

    async def report_file(self, request: Request) -> Response:
        names = _names(request)
        payload = await run_in_threadpool(self.reports.payload, names, self._language(request), tuple(LANGUAGES))
        for run in payload.runs:
            run.resume = None  # a folder of this machine is of no use to others
        payload.languages = page_languages()
        payload.view = request.query_params.get("view", "")[:VIEW_CHARACTERS]
        name = "".join(
            c if c.isascii() and (c.isalnum() or c in "-_.") else "-"
            for run in payload.runs[:3]
            for c in f"-{run.name}"
        )
        name = name[:60].strip(".-") or "log"
        page = await run_in_threadpool(render, payload)
        return HTMLResponse(page, headers={"content-disposition": f'attachment; filename="nanoscope-{name}.html"'})

    # --- logs and samples ---

    async def explain(self, request: Request) -> Response:
        """The report of a log; the log is kept, and `log` is its name in addresses."""
        asked = request.query_params
        max_iters = asked.get("max_iters") or None
        if max_iters is not None and not (len(max_iters) < 13 and max_iters.isdecimal() and int(max_iters)):
            raise HTTPException(422, "bad_request")
        options = Options(int(max_iters) if max_iters else None, asked.get("device", "")[:100] or None)
        name = printable(asked.get("name", "")[:100])
        language = self._language(request)
        async with self._received(request) as content, self._one_log:
            key, described = await run_in_threadpool(self.logs.add, content, name, options, (language,))
            if not described:
                raise NoTrainingError(name)
        self.reports.take_log(key, described, language)
        payload = await run_in_threadpool(report_payload, described, language, (language,))
        payload.log = key
        return _json(payload)

    @asynccontextmanager
    async def _received(self, request: Request) -> AsyncIterator[bytes]:
        """The log that was sent. What is held of all logs that are being sent or wait is bounded."""
        pieces: list[bytes] = []
        kept = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for piece in _pieces(request, LOG_LIMIT_BYTES):
                    pieces.append(piece)
                    kept += len(piece)
                    self._held_bytes += len(piece)
                    if self._held_bytes > MOST_HELD_BYTES:
                        raise HTTPException(503, "crowded")
            content = b"".join(pieces)
            pieces.clear()
            yield content
        except TimeoutError:
            raise HTTPException(408, "crowded") from None
        finally:
            self._held_bytes -= kept

    async def remove_log(self, request: Request) -> Response:
        if not self.logs.remove(request.query_params.get("log", "")):
            raise HTTPException(404, "gone")
        return JSONResponse({})

    async def sample(self, request: Request) -> Response:
        try:
            content = b"".join([piece async for piece in _pieces(request, PROMPT_BYTES)])
            asked = msgspec.json.decode(content, type=_SampleRequest)
        except (ValueError, RecursionError):
            raise HTTPException(422, "bad_request") from None
        path = self.folder.path(asked.run)
        if path is None:
            raise GoneError(asked.run)
        if self.writer.busy:
            raise HTTPException(409, "busy")
        pieces = self.writer.write(path, asked.prompt or "\n", asked.max_new_tokens, asked.temperature)
        beginning = asyncio.ensure_future(anext(pieces, ""))  # loading torch and the model takes seconds
        while not (await asyncio.wait({beginning}, timeout=CATCH_UP_SECONDS / 2))[0]:
            if await request.is_disconnected():
                beginning.cancel()
                return Response(status_code=499)
        try:
            first = await beginning
        except JobError as error:
            return JSONResponse({"error": "sample", "message": to_print(error.text)}, 422)

        async def text() -> AsyncIterator[str]:
            try:
                yield first
                async for piece in pieces:
                    yield piece
            finally:
                await pieces.aclose()

        return StreamingResponse(text(), media_type="text/plain; charset=utf-8")


def make_app(
    root: Path, language: str, names: frozenset[str], token: str | None, tell: Callable[[Facts], None] | None = None
) -> ASGIApp:
    """The application; `names` are the host names it answers to, `tell` is called when something happens to a run."""
    dashboard = Dashboard(root, language)

    @asynccontextmanager
    async def watching(app: Starlette) -> AsyncIterator[None]:
        if tell is None:
            yield
            return
        watcher = Watcher(tell, root)
        await run_in_threadpool(lambda: watcher.look(dashboard.folder.look()))  # from here on, what happens is news
        task = asyncio.create_task(_watch(dashboard.folder, watcher))
        yield
        task.cancel()

    async def refused(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return JSONResponse({"error": _CODES.get(error.status_code, error.detail)}, error.status_code)
        if isinstance(error, StillReadingError):
            return JSONResponse({"done": error.done, "of": error.of}, 202)
        if isinstance(error, TooLargeError):
            return JSONResponse({"error": "too_large"}, 413)
        if isinstance(error, GoneError):
            return JSONResponse({"error": "gone"}, 404)
        if isinstance(error, NewerVersionError):
            return JSONResponse({"error": "newer", "message": to_print(error.text)}, 422)
        if isinstance(error, JobError):  # nothing in it, or nothing that can be read
            return JSONResponse({"error": "no_training"}, 422)
        print(f"nanoscope: {request.url.path}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return JSONResponse({"error": "failed"}, 500)

    handlers = dict.fromkeys((HTTPException, JobError, TooLargeError, StillReadingError, Exception), refused)
    # The guard is outermost, so that error responses pass through it too.
    app = Starlette(routes=dashboard.routes(), exception_handlers=handlers, lifespan=watching)
    return Guard(app, names, token)


async def _watch(folder: WatchedFolder, watcher: Watcher) -> None:
    """Look at the runs for as long as the server runs, whether somebody has the page open or not."""
    while True:
        await asyncio.sleep(POLL_SECONDS)
        await run_in_threadpool(lambda: watcher.look(folder.look()))


_CODES: Mapping[int, str] = {404: "gone", 405: "method"}


def _names(request: Request) -> list[str]:
    names = request.query_params.getlist("run")
    if not 0 < len(names) <= MAX_SHOWN:
        raise HTTPException(422, "bad_request")
    return names


def _json(payload: Payload) -> Response:
    return Response(msgspec.json.encode(payload), media_type="application/json; charset=utf-8")


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

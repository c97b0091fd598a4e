"""Opens the port, prints the address, and serves until Ctrl-C or SIGTERM."""

import asyncio
import logging
import platform
import secrets
import signal
import socket
import webbrowser
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import psutil
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from nanoscope.errors import JobError, UsageError, why
from nanoscope.messages import Message, on_terminal
from nanoscope.views.dashboard.guard import LOOPBACK, address
from nanoscope.views.dashboard.notify import Watcher, notifier
from nanoscope.views.dashboard.routes import make_app
from nanoscope.views.report.html import static_files

NICENESS = 10  # training comes first
MAX_CONNECTIONS = 500
FILES_RESERVED = 40
HEADER_SECONDS = 10.0
LEAST_TOKEN = 12  # characters


class _Connection(H11Protocol):
    """Hangs up if too many are connected, and on whoever does not send the header of a request in time."""

    most = MAX_CONNECTIONS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._was_idle = True
        self._next_look = self.loop.call_later(HEADER_SECONDS, self._look)
        if len(self.connections) > self.most:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._next_look.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self._was_idle:
            self.transport.close()
        else:
            self._was_idle = idle
            self._next_look = self.loop.call_later(HEADER_SECONDS, self._look)


def _allow_connections() -> None:
    """Leave some of the files that a process may open to reading runs."""
    with suppress(ImportError, OSError, ValueError):  # Windows has no such limit
        import resource

        limits, wanted = resource.getrlimit(resource.RLIMIT_NOFILE), MAX_CONNECTIONS + FILES_RESERVED
        soft, hard = (wanted if each == resource.RLIM_INFINITY else min(each, wanted) for each in limits)
        if soft < hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, limits[1]))
        _Connection.most = max(1, hard - FILES_RESERVED)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # a traceback each time that there are too many files


def serve(
    folder: Path, host: str, port: int, ports_tried: int, token: str | None, language: str, browse: bool,
    notify: str | None = None,
) -> None:  # fmt: skip
    """Serve the runs of `folder`."""
    watcher = None if notify is None else Watcher(notifier(notify), folder.resolve())
    static_files()  # fails before the port is open if a package is missing
    is_local = host in LOOPBACK
    if is_local and token is not None:
        raise UsageError("--token works only with --host: local connections need no token")
    if token is not None and len(token) < LEAST_TOKEN:
        raise UsageError(
            "--token is too short to keep others out: use at least {n} characters, or leave it out for a random one",
            n=LEAST_TOKEN,
        )
    if not is_local:
        token = token or secrets.token_urlsafe(24)
    listening = _listen(host, port, ports_tried)
    port = listening.getsockname()[1]
    names = frozenset({*LOOPBACK, *([] if is_local else [host.lower(), platform.node().lower()])})
    app = make_app(folder.resolve(), language, names, token, watcher)
    ip = address(host)
    shown = f"[{host}]" if ":" in host else platform.node() if ip and ip.is_unspecified else host
    url = f"http://{shown}:{port}/"
    url += f"?{urlencode({'token': token})}" if token else ""
    with suppress(psutil.Error, OSError, AttributeError):
        psutil.Process().nice(NICENESS if hasattr(signal, "SIGHUP") else psutil.BELOW_NORMAL_PRIORITY_CLASS)
    _allow_connections()
    config = uvicorn.Config(
        app, log_level="critical", access_log=False, server_header=False, ws="none",
        timeout_graceful_shutdown=1, http=_Connection,
    )  # fmt: skip
    print(on_terminal(Message("watching {folder}, stop with Ctrl-C: {url}", folder=folder, url=url)), flush=True)
    if browse:
        webbrowser.open(url)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # either signal is the normal way to stop
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int, tries: int) -> socket.socket:
    """A socket on the port, or on the next free one."""
    for candidate in range(port, min(port + max(tries, 1), 65536)):
        try:
            found = socket.getaddrinfo(host, candidate, type=socket.SOCK_STREAM)[0]
            listening = socket.socket(found[0], found[1])
        except (OSError, UnicodeError) as error:
            raise JobError(
                "Can't serve at {host}: {reason}\nWithout --host it is 127.0.0.1, for local connections only",
                host=host, reason=why(error),
            ) from None  # fmt: skip
        try:
            if hasattr(signal, "SIGHUP"):  # on Windows this would let two servers share a port
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(found[4])
            listening.listen(128)
            return listening
        except OSError as error:
            listening.close()
            reason = error
    raise JobError(
        "Can't use port {port} at {host}: {reason}\nChoose another: --port N, or 0 for any",
        port=port, host=host, reason=why(reason),
    )  # fmt: skip

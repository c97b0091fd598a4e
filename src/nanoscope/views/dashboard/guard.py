"""Access control around the whole application: local pages only, or whoever has the token."""

import hashlib
import ipaddress
import secrets
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Refuses requests for another host name (DNS rebinding), from other sites, and without the token if one is set."""

    def __init__(self, app: ASGIApp, names: frozenset[str], token: str | None) -> None:
        self.app, self.names, self.token = app, names, token
        # Cookies are shared by all ports of a host: two servers must not overwrite each other's.
        self.cookie = "nanoscope-" + hashlib.sha256((token or "").encode()).hexdigest()[:8]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refused = self._refusal(Request(scope))
        await (refused or self.app)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        """The response to a request that is refused, or None."""
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if not self._is_own_name(host):
            return JSONResponse({"error": "wrong_host"}, 403)
        foreign = request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
        if (origin is not None and origin.partition("://")[2] != host) or (foreign and request.scope["path"] != "/"):
            return JSONResponse({"error": "wrong_origin"}, 403)
        return None if self.token is None else self._check_token(request, self.token)

    def _is_own_name(self, host: str) -> bool:
        """Whether nobody else can point this name at this machine. Ports may differ: they can be forwarded."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self.names or (self.token is not None and address(name) is not None)

    def _check_token(self, request: Request, token: str) -> Response | None:
        """A link with the token stores it in a cookie and redirects to the address without it."""
        if request.scope["path"] == "/" and _same(request.query_params.get("token", ""), token):
            rest = [(key, value) for key, value in request.query_params.multi_items() if key != "token"]
            answer = RedirectResponse("/" + (f"?{urlencode(rest)}" if rest else ""), 303)
            answer.set_cookie(self.cookie, token, httponly=True, samesite="strict")
            return answer
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        known = _same(request.cookies.get(self.cookie, ""), token) or _same(bearer, token)
        return None if known else JSONResponse({"error": "token"}, 401)


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), token.encode("utf-8"))


def address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address, if it is one."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None

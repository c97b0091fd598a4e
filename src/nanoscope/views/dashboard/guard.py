"""Access control around the whole application: local pages only, or whoever has the token."""

import hashlib
import ipaddress
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
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
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refused = self._refusal(scope)
        await (refused or self.app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        """The response to a request that is refused, or None."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_own_name(host):
            return JSONResponse({"error": "wrong_host"}, 403)
        origin = headers.get("origin")
        foreign = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
        if (origin is not None and _host_of(origin) != host) or (foreign and scope["path"] != "/"):
            return JSONResponse({"error": "wrong_origin"}, 403)
        return None if self.token is None else self._check_token(scope, headers, self.token)

    def _is_own_name(self, host: str) -> bool:
        """Whether nobody else can point this name at this machine. Ports may differ: they can be forwarded."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if self.token is not None and _is_address(name):
            return True
        return name in self.names

    def _check_token(self, scope: Scope, headers: Headers, token: str) -> Response | None:
        """A link with the token stores it in a cookie and redirects to the address without it."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token")
        if scope["path"] == "/" and given is not None and _same(given, token):
            rest = urlencode([(key, value) for key, value in query if key != "token"])
            answer = RedirectResponse("/" + (f"?{rest}" if rest else ""), 303)
            answer.set_cookie(self.cookie, token, httponly=True, samesite="strict")
            return answer
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            cookies = SimpleCookie()
        held = cookies[self.cookie].value if self.cookie in cookies else ""
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        return None if _same(held, token) or _same(bearer, token) else JSONResponse({"error": "token"}, 401)


def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), token.encode("utf-8"))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

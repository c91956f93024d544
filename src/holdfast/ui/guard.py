"""Who may see the dashboard: every request passes here before anything else sees it.

* The host that was asked for must be ours: an address, or a name that we were started with. A web site that has its own name
  lead to this machine (DNS rebinding) has a name of its own, and is refused.
* A request that a page of another origin makes is refused.
* With a token, a request needs it: as `Authorization: Bearer`, once as `?token=` in the address, or from then on as a
  cookie, which holds a value made of the token and not the token itself. Comparisons take the same time for any wrong value.
* Only GET and HEAD: there is nothing to write.

Responses may be framed by nobody, run scripts only from here, and load nothing from elsewhere.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["POLICY", "Access", "Guard"]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_OWN_SITES = ("", "none", "same-origin")
_ADDRESS_BYTES_MAX = 8_192


@dataclass(frozen=True)
class Access:
    """What a request must show."""

    names: tuple[str, ...] = ("localhost",)
    """The host names that are ours; any address is."""
    token: str | None = None

    @property
    def cookie(self) -> str:
        """What the cookie holds: it proves the token, and does not give it away."""
        return self._made_of_token(b"holdfast ui cookie")

    @property
    def cookie_name(self) -> str:
        """Another one for each token: browsers keep cookies by host, and not by port, so two dashboards would take each
        other's."""
        return f"holdfast_ui_{self._made_of_token(b'holdfast ui cookie name')[:8]}"

    def _made_of_token(self, what: bytes) -> str:
        return hmac.new((self.token or "").encode(), what, hashlib.sha256).hexdigest()


class Guard:
    """Lets requests through that may see the dashboard; answers all others itself."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        is_head = scope["method"] == "HEAD"

        async def send_guarded(message: Message) -> None:
            if is_head and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        answer = self._refusal(scope) or self._admission(scope)
        await (answer or self._app)({**scope, "method": "GET"} if is_head else scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD"):
            return _refused(405, "The dashboard only reads.", headers={"Allow": "GET, HEAD"})
        if len(scope["query_string"]) + len(scope.get("raw_path", b"")) > _ADDRESS_BYTES_MAX:
            return _refused(414, "The address is too long.")
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not _is_ours(hosts[0], self._access.names):
            return _refused(421, "This name is not one of the dashboard's.", "use its address, or start it with --host NAME")
        origin = headers.get("origin")
        if origin is not None and urlsplit_host(origin) != hosts[0].lower():
            return _refused(403, "Another site's page may not see this.")
        if headers.get("sec-fetch-site", "") not in _OWN_SITES and headers.get("sec-fetch-mode", "") != "navigate":
            return _refused(403, "Another site's page may not see this.")
        return None

    def _admission(self, scope: Scope) -> Response | None:
        """None for whoever has shown the token; a cookie for whoever shows it in the address."""
        access = self._access
        if access.token is None:
            return None
        headers = Headers(scope=scope)
        bearer = headers.get("authorization", "")
        if bearer[:7].lower() == "bearer " and _same(bearer[7:].strip(), [access.token]):
            return None
        if _same(access.cookie, _cookies(headers.getlist("cookie"), access.cookie_name)):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if _same(access.token, [value for name, value in query if name == "token"]):
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            # As it was written: what was escaped may be part of a key. With one slash at the beginning: two would lead to
            # another host.
            written = bytes(scope.get("raw_path") or quote(str(scope["path"])).encode()).partition(b"?")[0]
            path = "/" + written.decode("latin-1").lstrip("/")
            response = RedirectResponse(f"{path}?{rest}" if rest else path, status_code=303)
            response.set_cookie(access.cookie_name, access.cookie, httponly=True, samesite="strict", path="/")
            return response
        todo = "open the address that holdfast ui printed, or send the header Authorization: Bearer TOKEN"
        return _refused(401, "The dashboard's token is missing or wrong.", todo, {"WWW-Authenticate": "Bearer"})


def urlsplit_host(origin: str) -> str | None:
    """The host and port of an origin; None if it has none."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _is_ours(host: str, names: Sequence[str]) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same(wanted: str, shown: Iterable[str]) -> bool:
    """Whether one of them is the one wanted. All are compared, each in constant time."""
    found = False
    for each in shown:
        found |= hmac.compare_digest(wanted.encode("utf-8", "replace"), each.encode("utf-8", "replace"))
    return found


def _cookies(headers: Iterable[str], name: str) -> list[str]:
    found = []
    for header in headers:
        try:
            cookie = SimpleCookie(header).get(name)
        except CookieError:
            continue
        if cookie is not None:
            found.append(cookie.value)
    return found


def _refused(status: int, what: str, todo: str = "", headers: dict[str, str] | None = None) -> Response:
    content = json.dumps({"what": what, "detail": "", "todo": todo})
    return Response(content, status_code=status, headers=headers, media_type="application/json")

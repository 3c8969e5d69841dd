"""A real HTTP server on the loopback interface that misbehaves on request."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Behaviour = Callable[["Handler"], None]
STALL = 1.0


class Handler(BaseHTTPRequestHandler):
    """Records the request, then runs the next behaviour of its path. The last behaviour repeats."""

    server: "Server"
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        self.server.requests.append((self.path, dict(self.headers)))
        behaviours = self.server.paths.get(self.path, [status(404)])
        behaviour = behaviours.pop(0) if len(behaviours) > 1 else behaviours[0]
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # some clients disconnect on purpose
            behaviour(self)

    def log_message(self, *_: object) -> None:
        pass

    def begin(self, code: int, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


class Server(ThreadingHTTPServer):
    """Paths with their behaviours, and the requests received."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.paths: dict[str, list[Behaviour]] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def at(self, path: str, *behaviours: Behaviour) -> str:
        """Set the behaviours of `path`, one per request, and return its URL."""
        self.paths[path] = list(behaviours)
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    def seen(self, path: str) -> list[dict[str, str]]:
        """Return the headers of the requests for `path`."""
        return [headers for where, headers in self.requests if where == path]


@dataclasses.dataclass(frozen=True)
class Serve:
    """Sends a body; by default with Range, If-Range and a strong ETag as in RFC 9110."""

    body: bytes
    etag: str | None = '"one"'
    modified: str | None = None
    ranges: bool = True
    if_range: bool = True
    stop_after: int | None = None  # bytes, then close the connection
    stall_after: int | None = None  # bytes, then send nothing
    trickle: float = 0.0  # seconds between small pieces
    length: bool = True

    def __call__(self, handler: Handler) -> None:
        validators = {"ETag": self.etag, "Last-Modified": self.modified}
        headers = {name: value for name, value in validators.items() if value is not None}
        start = self._start(handler)
        if start is not None and start >= len(self.body):
            handler.begin(416, headers | {"Content-Range": f"bytes */{len(self.body)}"})
            return
        code = 200 if start is None else 206
        part = self.body[start or 0 :]
        if code == 206:
            headers["Content-Range"] = f"bytes {start}-{len(self.body) - 1}/{len(self.body)}"
        if self.length:
            headers["Content-Length"] = str(len(part))
        handler.begin(code, headers)
        self._send(handler, part)

    def _start(self, handler: Handler) -> int | None:
        wanted = handler.headers.get("Range")
        condition = handler.headers.get("If-Range")
        if wanted is None or not self.ranges:
            return None
        if self.if_range and condition not in (None, self.etag, self.modified):
            return None
        return int(wanted.removeprefix("bytes=").removesuffix("-"))

    def _send(self, handler: Handler, part: bytes) -> None:
        limit = self.stop_after if self.stop_after is not None else self.stall_after
        part = part if limit is None else part[:limit]
        if self.trickle:
            for i in range(0, len(part), 1000):
                handler.wfile.write(part[i : i + 1000])
                time.sleep(self.trickle)
        else:
            handler.wfile.write(part)
        if self.stall_after is not None:
            time.sleep(STALL)


def status(code: int, **headers: str) -> Behaviour:
    """Return a behaviour that answers with a status and no body; underscores in header names stand for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.begin(code, {"Content-Length": "0"} | named)


def redirect(url: str) -> Behaviour:
    """Return a behaviour that redirects the client."""
    return status(302, Location=url)


def silence(handler: Handler) -> None:
    """Accept the request and never answer."""
    time.sleep(STALL)


def chunked(body: bytes, whole: bool = True) -> Behaviour:
    """Return a behaviour that sends the body in HTTP/1.1 chunks, without the final chunk if it is not whole."""

    def behave(handler: Handler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.close_connection = True
        handler.begin(200, {"Transfer-Encoding": "chunked", "Connection": "close"})
        for i in range(0, len(body), 4096):
            piece = body[i : i + 4096]
            handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        if whole:
            handler.wfile.write(b"0\r\n\r\n")

    return behave

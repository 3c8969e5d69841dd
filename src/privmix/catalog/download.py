"""Download a file over http(s): resume, retry, check, and move it into place only if it is correct.

A broken transfer resumes where it stopped, also in a later run, if the server still has the same file: `Range` with
`If-Range` (RFC 9110, sections 13.1.5 and 14.2). The bytes so far are in `<target>.partial`, their origin is in
`<target>.partial.json`. If a URL fails permanently, the next mirror is tried. The user name and password of a URL are
sent to its own host only (HTTP Basic, RFC 7617), and no message or file shows them.
"""

import base64
import email.utils
import http.client
import json
import os
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from privmix.artefacts.io import CorruptFileError, atomic_write, compute_content, describe_mismatch
from privmix.catalog.entry import UrlSource, hide_password
from privmix.catalog.progress import Progress
from privmix.errors import UserError


class PartialDownload:
    """The unfinished file of one target. Only `publish` makes it the target."""

    def __init__(self, target: Path) -> None:
        self.target = Path(target)
        self.path = self.target.with_name(f"{self.target.name}.partial")
        self._origin = self.target.with_name(f"{self.target.name}.partial.json")

    def size(self) -> int:
        """Return the number of bytes received so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def resume_point(self, url: str) -> tuple[int, str]:
        """Return the offset at which to resume from `url` and the validator to send; (0, "") to start over."""
        origin = self._read_origin()
        if origin.get("url") == hide_password(url) and origin.get("validator"):
            return self.size(), origin["validator"]
        return 0, ""

    def order(self, urls: Iterable[str]) -> list[str]:
        """Return the URLs in order, but put the origin of a partial download first."""
        url = self._read_origin().get("url") if self.size() else None
        return sorted(urls, key=lambda candidate: hide_password(candidate) != url)

    def begin(self, url: str, validator: str) -> None:
        """Start over. Delete the old bytes before writing the new origin, so that a kill cannot mix the two."""
        self.discard()
        with atomic_write(self._origin) as temporary:
            temporary.write_text(
                json.dumps({"url": hide_password(url), "validator": validator}), encoding="utf-8"
            )

    def discard(self) -> None:
        """Delete the bytes and their origin."""
        self.path.unlink(missing_ok=True)
        self._origin.unlink(missing_ok=True)

    def publish(self) -> None:
        """Move the bytes to the target. The caller must have checked them."""
        with self.path.open("rb+") as stream:
            os.fsync(stream.fileno())
        self.path.replace(self.target)
        self._origin.unlink(missing_ok=True)

    def _read_origin(self) -> dict[str, str]:
        try:
            return dict(json.loads(self._origin.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError):
            return {}


CHUNK = 1 << 18
LONGEST_WAIT = 120.0
PROGRESS_BYTES = 1 << 20  # an attempt that gains this many bytes resets the count of failures
RETRIED_STATUSES = {408, 425, 429}


class _RefusedError(Exception):
    """This URL cannot provide the file. The next mirror may."""


class _InterruptedError(Exception):
    """This attempt failed. Another attempt may succeed."""

    def __init__(self, cause: str, wait: float = 0.0) -> None:
        super().__init__(cause)
        self.wait = wait


def download_file(
    source: UrlSource,
    target: Path,
    *,
    name: str,
    attempts: int = 5,
    timeout: float = 30.0,
    backoff: float = 1.0,
    progress: Progress | None = None,
) -> None:
    """Download the file, check it, and put it at `target`. On failure raise `UserError` and leave no file there.

    `attempts` is the number of consecutive failures after which a URL is given up. An attempt fails after `timeout`
    seconds without data. The wait after failure i is backoff * 2^(i-1), or longer if the server asks for it.
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    progress = progress or Progress(name)
    partial = PartialDownload(target)
    failures = []
    for url in partial.order((source.url, *source.mirrors)):
        progress.note(f"downloading {hide_password(url)}")
        try:
            _download_from(url, source, partial, attempts, timeout, backoff, progress)
        except _RefusedError as problem:
            failures.append(f"{hide_password(url)}: {problem}")
            progress.note(f"this URL failed: {problem}")
        else:
            partial.publish()
            return
        finally:
            progress.close()
    raise UserError(
        f"{name} could not be downloaded from {'; or from '.join(failures)}; "
        f"download it by hand and set `sources: {{{name}: path}}` in the configuration."
    )


def _download_from(
    url: str,
    source: UrlSource,
    partial: PartialDownload,
    attempts: int,
    timeout: float,
    backoff: float,
    progress: Progress,
) -> None:
    """Download the whole file from one URL and check it."""
    failed, best = 0, partial.resume_point(url)[0]
    while True:
        try:
            resumed = _receive(url, partial, timeout, progress)
        except _InterruptedError as problem:
            if partial.size() >= best + PROGRESS_BYTES:
                failed, best = 0, partial.size()
            failed += 1
            if failed >= attempts:
                raise _RefusedError(f"{problem} (attempt {failed} of {attempts})") from problem
            wait = min(max(backoff * 2 ** (failed - 1), problem.wait), LONGEST_WAIT)
            progress.note(f"{problem} (attempt {failed} of {attempts}); trying again in {wait:g} s")
            time.sleep(wait)
            continue
        fault = _content_fault(source, partial, progress)
        if fault is None:
            return
        partial.discard()
        if not resumed:
            raise _RefusedError(f"the file is not the expected one: {fault}")
        progress.note(f"the resumed file is not the expected one ({fault}); starting over")


def _content_fault(source: UrlSource, partial: PartialDownload, progress: Progress) -> str | None:
    try:
        found = compute_content(partial.path)
    except CorruptFileError as problem:
        return str(problem)
    fault = describe_mismatch(found, source.bytes, source.sha256)
    if fault is None and source.sha256 is None:
        progress.note(
            f"the entry has no sha256, so this file is not checked: {found.bytes:,} bytes unpacked, "
            f"sha256 {found.sha256}; add both to the source in the entry to check the next download."
        )
    elif fault is None:
        progress.note(f"{found.bytes:,} bytes unpacked, sha256 as expected")
    return fault


def _receive(url: str, partial: PartialDownload, timeout: float, progress: Progress) -> bool:
    """Try once to get all missing bytes. Return whether they continue an earlier part."""
    have, validator = partial.resume_point(url)
    request = _request(url)
    if have:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", validator)
    response = _open(request, timeout)
    with response:
        if response.status == 416 and have:
            if response.headers.get("Content-Range") == f"bytes */{have}":
                return True
            partial.discard()
            raise _InterruptedError("the file on the server is shorter than the part on disk")
        if response.status >= 300:
            raise _http_failure(response)
        resumed = bool(have) and response.status == 206
        if resumed and not _is_continuation(response, have, validator):
            partial.discard()
            raise _InterruptedError("the file on the server has changed; starting over")
        if not resumed:
            if response.status != 200:
                raise _RefusedError(f"the server answered {response.status} {response.reason}")
            partial.begin(url, _validator(response.headers))
            have = 0
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isdigit() else None
        with partial.path.open("ab") as file:
            for chunk in _chunks(response, timeout):
                file.write(chunk)
                have += len(chunk)
                progress.update(have, total)
    if total is not None and have != total:
        raise _InterruptedError(f"the connection broke after {have:,} of {total:,} bytes")
    return resumed


def _request(url: str) -> urllib.request.Request:
    """Return the request. User name and password go into a header that is not sent to the host of a redirect."""
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        request = urllib.request.Request(
            urllib.parse.urlunsplit(parts._replace(netloc=host)), headers={"User-Agent": "privmix"}
        )
    except ValueError as error:
        raise _RefusedError("this is not a valid URL") from error
    if request.type not in ("http", "https"):
        raise _RefusedError("only http and https URLs are supported")
    if parts.username is not None:
        secret = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        coded = base64.b64encode(secret.encode()).decode("ascii")
        request.add_unredirected_header("Authorization", f"Basic {coded}")
    return request


def _open(request: urllib.request.Request, timeout: float) -> Any:
    """Return the server's response, whatever its status."""
    try:
        return urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as answer:
        return answer
    except (http.client.InvalidURL, UnicodeError) as error:
        # Without the text of the error: it may quote a password.
        raise _RefusedError("this is not a valid URL") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise _RefusedError(f"the server's certificate is not valid ({reason.verify_message})") from error
        raise _InterruptedError(_cause(reason, timeout)) from error


def _chunks(response: Any, timeout: float) -> Iterator[bytes]:
    while True:
        try:
            chunk = response.read1(CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise _InterruptedError(_cause(error, timeout)) from error
        if not chunk:
            return
        yield chunk


def _http_failure(response: Any) -> Exception:
    if response.status < 400:
        return _RefusedError("the server redirects in a circle or to an invalid URL")
    cause = f"the server answered {response.status} {response.reason}".strip()
    if response.status >= 500 or response.status in RETRIED_STATUSES:
        return _InterruptedError(cause, _retry_after(response.headers))
    return _RefusedError(cause)


def _retry_after(headers: Any) -> float:
    """Return how many seconds the server asks to wait (RFC 9110, section 10.2.3: a number or a date)."""
    value = headers.get("Retry-After", "")
    if value.isdigit():
        return float(value)
    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except ValueError:
        return 0.0


def _validator(headers: Any) -> str:
    """Return the identifier of this version of the file. A weak ETag does not promise equal bytes (RFC 9110, 8.8.1)."""
    etag = headers.get("ETag", "")
    if etag and not etag.startswith("W/"):
        return etag
    return headers.get("Last-Modified", "")


def _is_continuation(response: Any, have: int, validator: str) -> bool:
    """Return whether a 206 continues our part. A server that ignores If-Range may still send its version."""
    begins = response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
    return begins and _validator(response.headers) in ("", validator)


def _cause(error: object, timeout: float) -> str:
    if isinstance(error, TimeoutError):
        return f"the server was silent for {timeout:g} s"
    if isinstance(error, socket.gaierror):
        return f"the host name cannot be resolved ({error.strerror}); is this machine online?"
    if isinstance(error, http.client.IncompleteRead | http.client.RemoteDisconnected | ConnectionResetError):
        return "the server closed the connection"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return str(error) or type(error).__name__

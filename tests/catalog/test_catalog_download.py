"""The downloader against a real server: only a correct file reaches the target."""

import base64
import email.utils
import gzip
import hashlib
import io
import random
import socket
import time
from pathlib import Path

import pytest
from catalog_server import Serve, Server, chunked, redirect, silence, status

from privmix.catalog import download
from privmix.catalog.entry import UrlSource
from privmix.catalog.progress import Progress
from privmix.errors import UserError

BODY = random.Random(1).randbytes(300_000)
OTHER = random.Random(2).randbytes(300_000)
HALF = 120_000


def source(url: str, body: bytes | None = BODY, mirrors: tuple[str, ...] = ()) -> UrlSource:
    if body is None:
        return UrlSource(kind="url", url=url, mirrors=mirrors)
    digest = hashlib.sha256(body).hexdigest()
    return UrlSource(kind="url", url=url, mirrors=mirrors, bytes=len(body), sha256=digest)


def get(wanted: UrlSource, target: Path, attempts: int = 3, timeout: float = 5.0) -> str:
    """Download, and return the log."""
    log = io.StringIO()
    progress = Progress("thing", log)
    download.download_file(
        wanted, target, name="thing", attempts=attempts, timeout=timeout, backoff=0.01, progress=progress
    )
    return log.getvalue()


def refused(wanted: UrlSource, target: Path, attempts: int = 3, timeout: float = 5.0) -> str:
    """Return the message of a download that must fail and leave no target."""
    with pytest.raises(UserError) as caught:
        get(wanted, target, attempts, timeout)
    assert not target.exists()
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert wanted.url in sentence
    assert "download it by hand and set `sources: {thing: path}` in the configuration" in sentence
    return sentence


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "raw" / "thing.raw"


def test_a_correct_file_is_the_only_file(server: Server, target: Path):
    get(source(server.at("/f", Serve(BODY))), target)
    assert target.read_bytes() == BODY
    assert leftovers(target.parent) == ["thing.raw"]


def test_a_broken_transfer_resumes_where_it_stopped(server: Server, target: Path):
    url = server.at("/f", Serve(BODY, stop_after=HALF), Serve(BODY))
    log = get(source(url), target)
    assert target.read_bytes() == BODY
    first, second = server.seen("/f")
    assert "Range" not in first
    assert second["Range"] == f"bytes={HALF}-"
    assert second["If-Range"] == '"one"'
    assert f"broke after {HALF:,} of {len(BODY):,} bytes" in log


def test_a_partial_download_is_kept_for_a_later_run(server: Server, target: Path):
    url = server.at("/f", Serve(BODY, stop_after=HALF), status(503))
    assert "503" in refused(source(url), target)
    assert (target.parent / "thing.raw.partial").read_bytes() == BODY[:HALF]
    server.at("/f", Serve(BODY))
    get(source(url), target)
    assert target.read_bytes() == BODY
    assert server.seen("/f")[-1]["Range"] == f"bytes={HALF}-"
    assert leftovers(target.parent) == ["thing.raw"]


def test_last_modified_is_used_without_a_strong_etag(server: Server, target: Path):
    day = "Wed, 21 Oct 2015 07:28:00 GMT"
    broken = Serve(BODY, etag='W/"weak"', modified=day, stop_after=HALF)
    get(source(server.at("/f", broken, Serve(BODY, etag='W/"weak"', modified=day))), target)
    assert server.seen("/f")[1]["If-Range"] == day
    assert target.read_bytes() == BODY


def test_without_a_validator_a_transfer_starts_over(server: Server, target: Path):
    get(source(server.at("/f", Serve(BODY, etag=None, stop_after=HALF), Serve(BODY, etag=None))), target)
    assert all("Range" not in headers for headers in server.seen("/f"))
    assert target.read_bytes() == BODY


def test_a_transfer_starts_over_if_the_server_ignores_range(server: Server, target: Path):
    url = server.at("/f", Serve(BODY, stop_after=HALF), Serve(BODY, ranges=False))
    get(source(url), target)
    assert server.seen("/f")[1]["Range"] == f"bytes={HALF}-"
    assert target.read_bytes() == BODY


@pytest.mark.parametrize("knows_if_range", [True, False])
def test_a_file_that_changed_is_never_mixed_with_the_old_one(
    server: Server, target: Path, knows_if_range: bool
):
    later = Serve(OTHER, etag='"two"', if_range=knows_if_range)
    url = server.at("/f", Serve(BODY, stop_after=HALF), later)
    get(source(url, None), target)
    assert target.read_bytes() == OTHER


def test_a_resumed_file_with_wrong_bytes_is_downloaded_again(server: Server, target: Path):
    url = server.at("/f", Serve(OTHER, stop_after=HALF), Serve(BODY))
    log = get(source(url), target)
    assert "starting over" in log
    assert target.read_bytes() == BODY
    assert "Range" not in server.seen("/f")[2]


def test_a_complete_part_is_checked_and_used(server: Server, target: Path):
    url = server.at("/f", Serve(BODY, stop_after=HALF), status(503))
    refused(source(url), target)
    (target.parent / "thing.raw.partial").write_bytes(BODY)
    server.at("/f", Serve(BODY))
    get(source(url), target)
    assert target.read_bytes() == BODY
    assert server.seen("/f")[-1]["Range"] == f"bytes={len(BODY)}-"


def test_a_part_longer_than_the_file_is_deleted(server: Server, target: Path):
    url = server.at("/f", Serve(BODY, stop_after=HALF), status(503))
    refused(source(url), target)
    (target.parent / "thing.raw.partial").write_bytes(BODY + b"more")
    server.at("/f", Serve(BODY))
    get(source(url, None), target)  # no checksum that would detect it
    assert target.read_bytes() == BODY


def test_wrong_bytes_are_refused_and_deleted(server: Server, target: Path):
    wrong = BODY[:-1] + b"?"
    sentence = refused(source(server.at("/f", Serve(wrong))), target)
    assert hashlib.sha256(BODY).hexdigest() in sentence
    assert hashlib.sha256(wrong).hexdigest() in sentence
    assert leftovers(target.parent) == []
    assert len(server.seen("/f")) == 1


def test_the_message_for_a_wrong_size_gives_both_numbers(server: Server, target: Path):
    sentence = refused(source(server.at("/f", Serve(BODY[:-7]))), target)
    assert "expected 300,000 bytes unpacked, got 299,993" in sentence


def test_gzip_is_checked_by_its_unpacked_content_and_kept_packed(server: Server, target: Path):
    packed = gzip.compress(BODY[:50_000])
    get(source(server.at("/f", Serve(packed)), BODY[:50_000]), target)
    assert target.read_bytes() == packed


@pytest.mark.parametrize("known", [True, False], ids=["with sha256", "without sha256"])
def test_a_gzip_cut_short_is_refused(server: Server, target: Path, known: bool):
    text = b"1\t2\n" * 20_000
    cut = gzip.compress(text)[:-20]
    sentence = refused(source(server.at("/f", Serve(cut)), text if known else None), target)
    assert "gzip data is damaged or cut short" in sentence
    assert leftovers(target.parent) == []


@pytest.mark.parametrize("byte", [10, 150_000], ids=["first block", "content"])
def test_a_gzip_with_a_damaged_byte_is_refused(server: Server, target: Path, byte: int):
    damaged = bytearray(gzip.compress(BODY))
    damaged[byte] ^= 0xFF
    assert "gzip data is damaged" in refused(source(server.at("/f", Serve(bytes(damaged))), None), target)


def test_without_a_sha256_the_computed_one_is_logged(server: Server, target: Path):
    log = get(source(server.at("/f", Serve(BODY)), None), target)
    assert f"sha256 {hashlib.sha256(BODY).hexdigest()}" in log
    assert "this file is not checked" in log


@pytest.mark.parametrize("code", [404, 410, 403])
def test_a_missing_file_is_not_requested_again(server: Server, target: Path, code: int):
    assert f"the server answered {code}" in refused(source(server.at("/f", status(code))), target)
    assert len(server.seen("/f")) == 1


@pytest.mark.parametrize("code", [500, 503, 429, 408])
def test_a_temporary_fault_is_retried(server: Server, target: Path, code: int):
    get(source(server.at("/f", status(code), Serve(BODY))), target)
    assert target.read_bytes() == BODY
    assert len(server.seen("/f")) == 2


def test_a_permanent_fault_ends_after_all_attempts_with_doubling_waits(
    server: Server, target: Path, monkeypatch: pytest.MonkeyPatch
):
    waits: list[float] = []
    monkeypatch.setattr(download.time, "sleep", waits.append)
    wanted = source(server.at("/f", status(500)))
    with pytest.raises(UserError, match=r"answered 500.*\(attempt 5 of 5\)"):
        download.download_file(wanted, target, name="thing", backoff=1.0)
    assert len(server.seen("/f")) == 5
    assert [wait for wait in waits if wait >= 1] == [1, 2, 4, 8]


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_the_wait_that_the_server_asks_for_is_used(
    server: Server, target: Path, monkeypatch: pytest.MonkeyPatch, form: str
):
    waits: list[float] = []
    value = "7" if form == "seconds" else email.utils.formatdate(time.time() + 7, usegmt=True)
    url = server.at("/f", status(503, Retry_After=value), Serve(BODY))
    monkeypatch.setattr(download.time, "sleep", waits.append)
    get(source(url), target)
    assert max(waits) == pytest.approx(7, abs=1.5)


def test_many_interruptions_are_no_failure_while_there_is_progress(server: Server, target: Path):
    big = random.Random(3).randbytes(8_000_000)
    get(source(server.at("/f", Serve(big, stop_after=1_500_000)), big), target, attempts=2)
    assert target.read_bytes() == big
    assert len(server.seen("/f")) == 6


def test_redirects_are_followed_also_on_resume(server: Server, target: Path):
    there = server.at("/there", Serve(BODY, stop_after=HALF), Serve(BODY))
    get(source(server.at("/f", redirect(there))), target)
    assert target.read_bytes() == BODY
    assert server.seen("/there")[1]["Range"] == f"bytes={HALF}-"


def test_a_redirect_in_a_circle_is_refused(server: Server, target: Path):
    url = server.at("/f", status(404))
    server.at("/f", redirect(url))
    assert "redirects in a circle" in refused(source(url), target)


def test_a_redirect_to_a_local_file_is_refused(server: Server, target: Path):
    refused(source(server.at("/f", redirect("file:///etc/hostname")), None), target)


def test_a_stalled_transfer_is_resumed(server: Server, target: Path):
    url = server.at("/f", Serve(BODY, stall_after=HALF), Serve(BODY))
    log = get(source(url), target, timeout=0.2)
    assert "silent for 0.2 s" in log
    assert target.read_bytes() == BODY
    assert server.seen("/f")[1]["Range"] == f"bytes={HALF}-"


def test_a_server_that_never_answers_is_given_up(server: Server, target: Path):
    assert "silent for 0.1 s" in refused(source(server.at("/f", silence)), target, attempts=2, timeout=0.1)
    assert len(server.seen("/f")) == 2


def test_a_slow_server_is_waited_for(server: Server, target: Path):
    slow = BODY[:20_000]
    get(source(server.at("/f", Serve(slow, trickle=0.04)), slow), target, timeout=0.4)
    assert target.read_bytes() == slow
    assert len(server.seen("/f")) == 1


def test_incomplete_chunks_are_not_accepted(server: Server, target: Path):
    url = server.at("/f", chunked(BODY, whole=False), chunked(BODY))
    get(source(url, None), target)
    assert target.read_bytes() == BODY
    assert len(server.seen("/f")) == 2


def test_a_file_of_unknown_length_is_accepted_when_its_content_is_right(server: Server, target: Path):
    get(source(server.at("/f", Serve(BODY, length=False))), target)
    assert target.read_bytes() == BODY


@pytest.mark.parametrize("fault", [status(404), Serve(OTHER), status(500)], ids=["404", "wrong", "500"])
def test_the_mirror_is_used_if_the_first_url_fails(server: Server, target: Path, fault):
    mirror = server.at("/mirror", Serve(BODY))
    get(source(server.at("/f", fault), mirrors=(mirror,)), target)
    assert target.read_bytes() == BODY
    assert "Range" not in server.seen("/mirror")[0]


def test_if_all_urls_fail_the_message_gives_each_reason(server: Server, target: Path):
    mirror = server.at("/mirror", Serve(OTHER))
    sentence = refused(source(server.at("/f", status(404)), mirrors=(mirror, "ftp://example.org/f")), target)
    assert "404" in sentence
    assert f"{mirror}: the file is not the expected one" in sentence
    assert "ftp://example.org/f: only http and https" in sentence


def test_a_later_run_continues_with_the_mirror_of_the_partial_download(server: Server, target: Path):
    mirror = server.at("/mirror", Serve(BODY, stop_after=HALF), status(503))
    url = server.at("/f", status(404))
    refused(source(url, mirrors=(mirror,)), target)
    server.at("/mirror", Serve(BODY))
    server.requests.clear()
    get(source(url, mirrors=(mirror,)), target)
    assert [path for path, _ in server.requests] == ["/mirror"]
    assert server.seen("/mirror")[0]["Range"] == f"bytes={HALF}-"


def test_bytes_of_one_url_are_not_continued_from_another(server: Server, target: Path):
    mirror = server.at("/mirror", Serve(BODY))
    url = server.at("/f", Serve(OTHER, stop_after=HALF), status(404))
    get(source(url, mirrors=(mirror,)), target)
    assert target.read_bytes() == BODY
    assert "Range" not in server.seen("/mirror")[0]


def test_a_closed_port_is_one_sentence(target: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/f"
        assert "connection refused" in refused(source(url), target, attempts=2)


@pytest.mark.parametrize("url", ["http://[broken/f", "http://exa mple.org/f"])
def test_a_malformed_url_is_one_sentence(url: str, target: Path):
    assert "not a valid URL" in refused(source(url), target)


def secret_url(url: str, secret: str = "s3cret") -> str:
    return url.replace("://", f"://me:{secret}@")


def test_a_password_is_sent_but_never_shown(server: Server, target: Path):
    url = server.at("/f", Serve(BODY, stop_after=HALF), status(404))
    wanted = source(secret_url(url), mirrors=(secret_url(server.at("/g", status(404))),))
    with pytest.raises(UserError) as caught:
        get(wanted, target)
    shown = "".join(path.read_text() for path in target.parent.glob("*.json"))
    server.at("/f", Serve(BODY))
    log = get(wanted, target)
    assert target.read_bytes() == BODY
    assert server.seen("/f")[0]["Authorization"] == "Basic " + base64.b64encode(b"me:s3cret").decode()
    for said in (str(caught.value), shown, log):
        assert "s3cret" not in said
        assert "://***@127.0.0.1" in said


def test_a_password_is_not_sent_to_another_host(server: Server, target: Path):
    elsewhere = server.at("/g", Serve(BODY))
    get(source(secret_url(server.at("/f", redirect(elsewhere)))), target)
    assert "Authorization" in server.seen("/f")[0]
    assert "Authorization" not in server.seen("/g")[0]


@pytest.mark.parametrize("secret", ["p@55", "pq/ss", "12x/y", "%2F"])
def test_an_invalid_url_does_not_show_its_password(secret: str, target: Path):
    with pytest.raises(UserError) as caught:
        get(source(f"http://me:{secret}@127.0.0.1:1/f"), target, attempts=1)
    assert secret not in str(caught.value)
    assert secret.partition("/")[0] not in str(caught.value)
    assert "http://***@127.0.0.1:1/f" in str(caught.value)

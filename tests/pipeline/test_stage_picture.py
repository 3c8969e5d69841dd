"""The README's picture."""

import os
import shutil
import struct
import subprocess
import sys

import pytest

from privmix.errors import UserError
from privmix.report import picture

PAGE = "<!DOCTYPE html><title>A page</title><body style='background: #fdf6e3'><h1>Hello</h1>"


def test_without_a_browser_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UserError, match=r"needs Chromium, but none of chromium, .*\. Install it"):
        picture.find_browser()


def test_a_browser_that_makes_no_picture_is_quoted(tmp_path):
    (tmp_path / "browser").write_text("#!/bin/sh\necho out of order >&2\n")
    (tmp_path / "browser").chmod(0o755)
    with pytest.raises(UserError, match=r"no picture of .*Its message: out of order"):
        picture.screenshot(str(tmp_path / "browser"), tmp_path / "page.html")


def test_the_first_screen_of_a_page_is_taken(tmp_path):
    try:
        chromium = picture.find_browser()
    except UserError as error:
        if os.environ.get("PRIVMIX_REQUIRE_ALL") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))
    (tmp_path / "page.html").write_text(PAGE)
    command = [sys.executable, "-m", "privmix.pipeline.stages.picture", "--browser", chromium]
    command += ["--html", "page.html", "--output", "docs/page.png"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said == "Wrote docs/page.png\n"
    content = (tmp_path / "docs/page.png").read_bytes()
    assert content[:4] == b"\x89PNG"
    assert struct.unpack(">II", content[16:24]) == (picture.WIDTH, picture.HEIGHT)
    assert list((tmp_path / "docs").iterdir()) == [tmp_path / "docs/page.png"]

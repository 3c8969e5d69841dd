"""The picture of a release page: compared with the one that the model and its synthetic rows give.

The text around the picture is the same on every machine. A picture is not: the last digits of an SVG, and the packing
of a PNG, depend on libraries. So an SVG is compared up to small differences of its numbers, and a PNG by its pixels.
"""

import base64
import binascii
import importlib.metadata
import re
import struct
import zlib

import numpy as np

from privmix.errors import UserError
from privmix.release.folder import PAGE, ReleasedModel
from privmix.release.page import Page

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
HASH = re.compile(r"model-[mpc][0-9a-f]{10}\b")  # ids that matplotlib makes from the content
MOVED = 2.5e-6  # points by which a number of the SVG may differ: its sixth decimal, rounded otherwise
LONGEST = 16  # characters of such a number
CHANGED = 0.02  # share of the pixels that may differ by more than SHADE
SHADE = 24
PNG = b"\x89PNG\r\n\x1a\n"
ELEMENT = re.compile(
    r'</?(?:svg|g|path|use|text|defs|clipPath|rect|image)(?: [a-z][A-Za-z:-]*="[\w\s.,:;()#%*+/-]*")*\s*/?>'
)
DATA = "data:image/png;base64,"


def check_page(text: str, expected: Page, model: ReleasedModel) -> bool:
    """Compare a page with the expected one. Return whether the picture was compared too."""
    if text == expected.text:
        return True
    pattern = re.escape(expected.text)
    for part in (expected.picture, expected.bitmap):
        if part is not None:
            form = (
                r"(<svg .*?</svg>)" if part is expected.picture else rf"({re.escape(DATA)}[A-Za-z0-9+/]*=*)"
            )
            pattern = pattern.replace(re.escape(part), form, 1)
    found = re.fullmatch(pattern, text, flags=re.DOTALL)
    if found is None:
        raise UserError(f"{PAGE} is not the page that model.json gives; do not publish it.")
    parts = list(found.groups())
    if expected.bitmap is not None:
        _compare_bitmaps(parts.pop(0), expected.bitmap)
    return _compare_drawings(parts[0], expected.picture, model)


def _compare_drawings(stated: str, expected: str, model: ReleasedModel) -> bool:
    """Compare two SVG pictures. Another version of matplotlib may draw with other elements."""
    if NUMBER.sub("0", HASH.sub("", stated)) == NUMBER.sub("0", HASH.sub("", expected)):
        one, other = (
            np.array(NUMBER.findall(HASH.sub("", each)), dtype=np.float64) for each in (stated, expected)
        )
        short = all(len(number) <= LONGEST for number in NUMBER.findall(stated))
        if short and (np.abs(one - other) <= MOVED).all():
            return True
    elif model.drawn_with != importlib.metadata.version("matplotlib"):
        rest = ELEMENT.sub("", stated)
        if len(stated) < 2 * len(expected) and re.fullmatch(r"[\w\s.,()°−·/%-]*", rest):
            return False
    raise UserError(f"{PAGE} shows another picture than model.json gives; do not publish it.")


def _compare_bitmaps(stated: str, expected: str) -> None:
    own, mine = _pixels(stated), _pixels(expected)
    if own is None or mine is None or own.shape != mine.shape:
        raise UserError(f"{PAGE} holds a bitmap that is no picture of the synthetic rows; do not publish it.")
    far = (np.abs(own.astype(np.int16) - mine.astype(np.int16)) > SHADE).any(axis=2)
    if far.mean() > CHANGED * max(float((mine[..., 3] > 0).mean()), 1e-3):
        raise UserError(f"{PAGE} shows other points than the synthetic rows; do not publish it.")


def _pixels(address: str) -> np.ndarray | None:
    """Return the pixels (height, width, 4) of a PNG with 8 bits for each colour, or None if it has any other form."""
    try:
        content = base64.b64decode(address.removeprefix(DATA), validate=True)
        chunks = _chunks(content)
    except (binascii.Error, ValueError, struct.error):
        return None
    names = [name for name, _ in chunks]
    if names[:1] != [b"IHDR"] or names[-1:] != [b"IEND"] or chunks[-1][1]:
        return None
    if any(name not in (b"pHYs", b"IDAT") for name in names[1:-1]) or names.count(b"pHYs") > 1:
        return None
    width, height, *form = struct.unpack(">IIBBBBB", chunks[0][1])
    if form != [8, 6, 0, 0, 0] or width * height > 1 << 22:
        return None
    packed = b"".join(data for name, data in chunks if name == b"IDAT")
    size = height * (1 + 4 * width)
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(packed, size + 1)
    except zlib.error:
        return None
    if len(raw) != size or unpacker.unused_data or unpacker.unconsumed_tail:
        return None
    return _unfilter(np.frombuffer(raw, dtype=np.uint8).reshape(height, 1 + 4 * width))


def _chunks(content: bytes) -> list[tuple[bytes, bytes]]:
    """Return the chunks of a PNG file, which fill it completely."""
    if content[:8] != PNG:
        raise ValueError("not a PNG")
    found, place = [], 8
    while place < len(content):
        (length,) = struct.unpack_from(">I", content, place)
        name, data = content[place + 4 : place + 8], content[place + 8 : place + 8 + length]
        (sum_,) = struct.unpack_from(">I", content, place + 8 + length)
        if zlib.crc32(name + data) != sum_:
            raise ValueError("a chunk is damaged")
        found.append((name, data))
        place += 12 + length
    return found


def _unfilter(lines: np.ndarray) -> np.ndarray | None:
    """Undo the filters of the lines (PNG specification, section 9)."""
    kinds, pixels = lines[:, 0], lines[:, 1:].reshape(len(lines), -1, 4).copy()
    before = np.zeros_like(pixels[0])
    for kind, line in zip(kinds, pixels, strict=True):
        if kind == 1:
            np.add.accumulate(line, axis=0, out=line, dtype=np.uint8)
        elif kind == 2:
            line += before
        elif kind in (3, 4):
            _unfilter_line(line, before, average=kind == 3)
        elif kind != 0:
            return None
        before = line
    return pixels


def _unfilter_line(line: np.ndarray, above: np.ndarray, *, average: bool) -> None:
    left = corner = [0, 0, 0, 0]
    for place, over in enumerate(above.tolist()):
        row = line[place].tolist()
        if average:
            left = [(x + (a + b) // 2) & 255 for x, a, b in zip(row, left, over, strict=True)]
        else:
            left = [(x + _paeth(a, b, c)) & 255 for x, a, b, c in zip(row, left, over, corner, strict=True)]
        line[place], corner = left, over


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min(
        (abs(guess - left), 0, left), (abs(guess - above), 1, above), (abs(guess - corner), 2, corner)
    )[2]

"""Signatures of releases: an Ed25519 key of the curator signs the checksums file (RFC 8032).

The checksums cover every other file, so the signature covers the whole folder. It proves that the holder of the key
made the folder. It does not prove that the mechanism ran as stated: trust in the holder does that.
"""

import contextlib
import os
import re
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from privmix.errors import UserError
from privmix.release.closed_files import read_text
from privmix.release.folder import CHECKSUMS, MOST_BYTES, SIGNATURE

FOLDER = Path("releases/.signing")
KEY, PUBLIC_KEY = "key", "key.pub"
CONTEXT = b"privmix release, format 2: checksums\n"  # a signature of anything else does not fit
FORM = re.compile(r"ed25519 (?P<key>[0-9a-f]{64}) (?P<signature>[0-9a-f]{128})\n")
HEX_KEY = re.compile(r"(?:ed25519 )?([0-9a-fA-F]{64})")
# The curve of Ed25519: -x² + y² = 1 + d x² y² modulo p (RFC 8032, 5.1)
P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


def load_or_create_key(folder: Path = FOLDER) -> Ed25519PrivateKey:
    """Return the signing key in this folder. At first use, make it, readable for the owner only."""
    path = folder / KEY
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            _create(path, Ed25519PrivateKey.generate())
        if path.stat().st_mode & 0o077:
            raise UserError(f"others can read the signing key {path}; run `chmod 600 {path}`.")
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text().strip()))
        (folder / PUBLIC_KEY).write_text(f"ed25519 {public_hex(key)}\n")
    except OSError as error:
        raise UserError(
            f"the signing key {path} cannot be used ({error.strerror}); fix its permissions. Nothing is released "
            "without it."
        ) from error
    except ValueError as error:
        raise UserError(f"{path} is not a signing key; restore it from a backup, or move it away.") from error
    return key


def _create(path: Path, key: Ed25519PrivateKey) -> None:
    """Write a new key. The file appears complete or not at all, and never replaces another."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(key.private_bytes_raw().hex() + "\n")
            stream.flush()
            os.fsync(handle)
        os.link(temporary, path)
    finally:
        temporary.unlink()


def public_hex(key: Ed25519PrivateKey) -> str:
    """Return the public key as 64 hexadecimal digits."""
    return key.public_key().public_bytes_raw().hex()


def sign(folder: Path, key: Ed25519PrivateKey) -> None:
    """Sign the checksums of a release folder."""
    signature = key.sign(CONTEXT + (folder / CHECKSUMS).read_bytes())
    (folder / SIGNATURE).write_text(f"ed25519 {public_hex(key)} {signature.hex()}\n", encoding="ascii")


def check_signature(folder: Path) -> str:
    """Check that the signature fits the checksums. Return the public key that it names, which anyone can choose."""
    path = folder / SIGNATURE
    found = FORM.fullmatch(read_text(path, MOST_BYTES[SIGNATURE]))
    if found is None:
        raise UserError(f"{path} is not a signature; get the release again.")
    message = CONTEXT + read_text(folder / CHECKSUMS, MOST_BYTES[CHECKSUMS]).encode()
    _refuse_small_order(found["key"], str(path))
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(found["key"]))
        public.verify(bytes.fromhex(found["signature"]), message)
    except (InvalidSignature, ValueError) as error:
        raise UserError(
            f"{path} does not fit {CHECKSUMS}: the release was changed after it was signed; get it again."
        ) from error
    return found["key"]


def read_signer(text: str) -> str:
    """Return the public key that a user trusts, given as hexadecimal digits or as the file that holds them."""
    found = HEX_KEY.fullmatch(text.strip())
    if found is None and Path(text).is_file():
        found = HEX_KEY.fullmatch(read_text(Path(text), MOST_BYTES[SIGNATURE]).strip())
    if found is None:
        raise UserError(
            f"--signer {text}: give the public key of the curator, as 64 hexadecimal digits or as the file "
            f"{PUBLIC_KEY} that holds them."
        )
    _refuse_small_order(found[1], f"--signer {text}")
    return found[1].lower()


def _refuse_small_order(key: str, where: str) -> None:
    """Refuse a public key whose point has an order of at most 8: for it, anyone can make signatures that fit.

    The key is y, and the sign of x in the last bit. The order is 1 or 2 if y² = 1, which makes x = 0, and 4 if y = 0.
    A point of order 8 doubles to y = 0. The doubled y is (x² + y²)/(1 - d x² y²), so x² = -y², and the curve gives
    d y⁴ + 2 y² = 1.
    """
    square = pow(int.from_bytes(bytes.fromhex(key), "little") % 2**255, 2, P)
    if square in (0, 1) or (D * square * square + 2 * square - 1) % P == 0:
        raise UserError(
            f"{where} has a public key of small order, for which anyone can sign; do not trust the release."
        )

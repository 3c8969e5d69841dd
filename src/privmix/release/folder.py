"""The release folder: its files, how to read it, and how to write it completely or not at all."""

import contextlib
import datetime
import hashlib
import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow.parquet as pq
from pydantic import FailFast, Field, ValidationError, ValidationInfo, field_validator

from privmix.artefacts.domain import Domain
from privmix.artefacts.fitted_model import CensoredLabels, Proportion
from privmix.artefacts.io import Artefact, describe_problem
from privmix.artefacts.privacy_statement import PrivacyStatement
from privmix.artefacts.statistics import Statistic, StatisticRequest
from privmix.errors import UserError
from privmix.mixture.model import Mixture
from privmix.release.closed_files import check_json, read_limited

# Of `model.json`. 1 had no signature and no seed, 2 no shares of attributes by component, 3 no types of columns, 4 no
# statistics.
FORMAT: Literal[5] = 5
MODEL, CARD, PAGE = "model.json", "MODEL_CARD.md", "release.html"
CHECKSUMS, SIGNATURE = "checksums", "signature"
SYNTHETIC_CSV, SYNTHETIC_PARQUET, REPORTS = "synthetic.csv", "synthetic.parquet", "reports.parquet"
COMMON_FILES = (MODEL, CARD, PAGE, SYNTHETIC_CSV, SYNTHETIC_PARQUET)  # of every release
SPARE = 3  # times the expected size of a release must be free: temporary files need space too
LEAST_SPACE = 32 << 20  # bytes
TIMESTAMP = ".snakemake_timestamp"  # an empty file that Snakemake adds to an output folder
MEBIBYTE = 1 << 20
MOST_BYTES = {
    MODEL: 64 * MEBIBYTE,
    CARD: MEBIBYTE,
    PAGE: 16 * MEBIBYTE,
    CHECKSUMS: 4096,
    SIGNATURE: 4096,
    SYNTHETIC_CSV: 8192 * MEBIBYTE,
    SYNTHETIC_PARQUET: 4096 * MEBIBYTE,
    REPORTS: 4096 * MEBIBYTE,
}
MEASURED = (
    "original",
    "normalised",
    "shares",
    "transcript",
    "proportions",
    "statistics",
)  # keys of the parts with many numbers

UNROUNDED = 1e-9  # distance of a sum of shares from 1
ROUND_UP = 1e-4  # units: a number that is this near to the next unit is this unit
DECIMALS, LOCAL_DECIMALS = 6, 5  # of shares: sums over many reports differ more between machines

# Lists whose types are checked up to the first error: the messages of all errors of a forged file fill the memory.
Numbers = Annotated[list[float], FailFast()]
Table = Annotated[list[Numbers], FailFast()]


class Gaussians(Artefact):
    """The parameters of a mixture."""

    weights: Numbers
    means: Table
    covariances: Annotated[list[Table], FailFast()]

    @classmethod
    def of(cls, mixture: Mixture) -> "Gaussians":
        """Return the parameters as plain numbers."""
        return cls(
            weights=mixture.weights.tolist(),
            means=mixture.means.tolist(),
            covariances=mixture.covariances.tolist(),
        )

    @property
    def mixture(self) -> Mixture:
        """The mixture. Its `to_sklearn` returns a scikit-learn estimator."""
        return Mixture(np.array(self.weights), np.array(self.means), np.array(self.covariances))


class DatasetDescription(Artefact):
    """The public texts of the catalog entry that the model card shows."""

    description: str
    licence: str
    licence_url: str
    citation: str
    homepage: str
    caveats: tuple[str, ...]
    privacy_note: str
    bound_reasons: tuple[str, ...]  # one for each coordinate


class Synthetic(Artefact):
    """The size and columns of the synthetic rows, and the seed from which they are drawn (`release.synthetic`)."""

    seed: str = Field(pattern=r"^[0-9a-f]{32}$")
    rows: int
    columns: tuple[str, ...]
    left_out: tuple[str, ...]  # columns of the source that are not in the release


class ReleasedModel(Artefact):
    """`model.json` of a release."""

    sealed: ClassVar[bool] = False  # the file of checksums covers it

    format: Literal[5]
    notice: str
    made: datetime.date
    version: str
    about: DatasetDescription
    domain: Domain
    mechanism: str
    method: str
    parameters: dict[str, Any]
    components: tuple[int, ...]  # the requested number of components, or the candidates
    choice_share: (
        float | None
    )  # part of ε for the choice among candidates; None if there is none, or it is free
    statistics_asked: tuple[StatisticRequest, ...]
    statistics_share: float | None  # part of the budget for them; None if there are none
    privacy: PrivacyStatement
    original: Gaussians  # in the units of the source
    normalised: Gaussians  # in the unit ball, as `domain.axes` map into it
    shares: dict[str, Table]  # attribute -> shares of its values in each component
    transcript: Annotated[list[dict[str, Any]], FailFast()]  # all noisy values that were released
    proportions: Annotated[list[Proportion], FailFast()]
    statistics: Annotated[list[Statistic], FailFast()]  # published beside the model
    notes: list[str]
    labels: CensoredLabels | None
    synthetic: Synthetic

    @field_validator("shares")
    @classmethod
    def _round_shares(cls, shares: dict[str, Table], info: ValidationInfo) -> dict[str, Table]:
        """Round shares, so that no digit is free. A text with more digits is not the one that Privmix writes."""
        privacy = info.data.get("privacy")
        local = privacy is not None and privacy.randomises_records
        return {
            name: round_shares(rows, LOCAL_DECIMALS if local else DECIMALS) for name, rows in shares.items()
        }

    @property
    def local(self) -> bool:
        """Whether the reports of the records are part of the release."""
        return self.privacy.randomises_records

    @property
    def files(self) -> tuple[str, ...]:
        """All files of the folder except the checksums and the signature."""
        return (*COMMON_FILES, *((REPORTS,) if self.local else ()))


def model_text(model: ReleasedModel) -> str:
    """Return the text of `model.json`. No zero has a sign, which could hide a bit.

    Each number ends its line. No text does, because it ends in a quotation mark.
    """
    return model.model_dump_json(indent=1).replace("-0.0,\n", "0.0,\n").replace("-0.0\n", "0.0\n")


def write_model(path: Path, model: ReleasedModel) -> ReleasedModel:
    """Write `model.json`, and return the model as every reader gets it."""
    path.write_text(model_text(model), encoding="utf-8", newline="")
    return read_release(path.parent)


def round_shares(rows: Table, decimals: int) -> Table:
    """Return distributions with this many decimals that still add up to 1, each share up to one unit away.

    All shares are rounded down, and those with the largest rest get one unit more. A row that is no distribution, which
    `verify` refuses, stays as it is.
    """
    return [_round_row(np.array(row, dtype=np.float64), 10**decimals) for row in rows]


def _round_row(row: np.ndarray, units: int) -> list[float]:
    if not np.isfinite(row).all() or (row < 0).any() or abs(row.sum() - 1) > UNROUNDED:
        return list(map(float, row))
    whole = np.floor(row * units + ROUND_UP)
    left = units - int(whole.sum())
    whole[np.argsort(whole - row * units, kind="stable")[:left]] += 1
    return list(map(float, whole / units))


def read_release(folder: Path) -> ReleasedModel:
    """Read the model of a release folder."""
    path = Path(folder) / MODEL
    content = read_limited(path, MOST_BYTES[MODEL])
    check_json(content, str(path), MEASURED)
    try:
        return ReleasedModel.model_validate_json(content)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        if any(problem["loc"] == ("format",) and problem["type"] == "missing" for problem in problems):
            raise UserError(
                f"{path} is no release of format {FORMAT}. Format 1 has no signature and no seed of the synthetic "
                "rows, so its origin and its rows cannot be checked; make a new release with `privmix release`, or "
                "check the old one with the version of Privmix that made it."
            ) from error
        raise UserError(
            f"{path} is not the model of a release ({describe_problem(error)}); make a release with `privmix release`."
        ) from error


def file_digest(path: Path) -> str:
    """Return the sha256 of a file."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def checksums(folder: Path, files: tuple[str, ...]) -> str:
    """Return the content of the checksums file, in the format of `sha256sum --check`."""
    return "".join(f"{file_digest(Path(folder) / name)}  {name}\n" for name in sorted(files))


@contextlib.contextmanager
def place_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder beside `target` and rename it to `target` if the block succeeds.

    All files are on the disk before the folder gets its name. If the block fails, nothing is left. A killed process
    leaves a folder whose name begins with a dot.
    """
    target = Path(target)
    check_free(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part"))
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        for path in temporary.iterdir():
            path.chmod(0o666 & ~umask)
            _sync(path)
        temporary.chmod(0o777 & ~umask)
        _sync(temporary)
        try:
            temporary.rename(target)  # fails if a release is there: only an empty folder can be replaced
        except OSError:
            check_free(target)
            raise
        _sync(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def scratch_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder on the same disk as `target`, and delete it at the end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.", suffix=".part") as folder:
        yield Path(folder)


def estimate_bytes(rehearsed: Path, rows: float, reports: float) -> int:
    """Return a generous estimate of the disk space of a release, from the files of its rehearsal.

    The release has `rows` times as many synthetic rows, and `reports` times as many reports.
    """
    factors = {SYNTHETIC_CSV: rows, SYNTHETIC_PARQUET: rows, REPORTS: reports}
    sizes = [
        path.stat().st_size + factors.get(path.name, 0.0) * _row_bytes(path) for path in rehearsed.iterdir()
    ]
    return math.ceil(SPARE * math.fsum(sizes)) + LEAST_SPACE


def _row_bytes(path: Path) -> int:
    """Return the size of the rows of a file. A Parquet file counts uncompressed and without its metadata."""
    if path.suffix != ".parquet":
        return path.stat().st_size
    with pq.ParquetFile(path) as file:
        return sum(file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups))


def check_space(folder: Path, needed: int) -> None:
    """Refuse a release if the disk of `folder`, which may not exist yet, has too little space."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.is_dir())
    free = shutil.disk_usage(there).free
    if free < needed:
        raise UserError(
            f"the disk of {folder} has {free / 1e6:,.1f} MB free, but a release may need {needed / 1e6:,.1f} MB. Free "
            "space, then release again. Nothing was released, and nothing was spent."
        )


def check_free(target: Path) -> None:
    """Refuse a target that exists, because a release is never overwritten, or that lies in a hidden folder."""
    project, place = Path.cwd().resolve(), target.resolve()
    inside = place.relative_to(project).parts if place.is_relative_to(project) else ()
    hidden = next((part for part in inside if part.startswith(".")), None)
    if hidden is not None:
        raise UserError(
            f"{target} lies in {hidden}, a hidden folder of the project. Such folders hold keys and accounts that must "
            "not be published. Give another folder with --out."
        )
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserError(
            f"{target} already exists, and a release is never overwritten, because a new one would spend its ε again. "
            "Give another folder with --out, or move the old one."
        )


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

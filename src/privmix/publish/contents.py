"""What a release folder holds, and how it is read again.

Nothing in it is a function of the records but what the ledger pays for: no number of records that is not public, no
time that it took, no figure of an audit, no hash of the data, by which whoever guesses them could be sure.
"""

import datetime
import hashlib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from privmix.artefacts.domain import Domain
from privmix.artefacts.fitted import Proportion
from privmix.artefacts.part import Part
from privmix.artefacts.statement import Privacy
from privmix.errors import UserError
from privmix.mixture.model import Mixture

MODEL, CARD, PAGE, CHECKSUMS = "model.json", "MODEL_CARD.md", "release.html", "checksums"
SYNTHETIC_CSV, SYNTHETIC_PARQUET, REPORTS = "synthetic.csv", "synthetic.parquet", "reports.parquet"
TIMESTAMP = ".snakemake_timestamp"  # an empty file that Snakemake puts into a folder it has asked for


class Gaussians(Part):
    """The parameters of a mixture."""

    weights: list[float]
    means: list[list[float]]
    covariances: list[list[list[float]]]

    @classmethod
    def of(cls, mixture: Mixture) -> "Gaussians":
        """As plain numbers."""
        return cls(
            weights=mixture.weights.tolist(),
            means=mixture.means.tolist(),
            covariances=mixture.covariances.tolist(),
        )

    @property
    def mixture(self) -> Mixture:
        """As a mixture; `to_sklearn` of it hands over."""
        return Mixture(self.weights, self.means, self.covariances)


class Synthetic(Part):
    """What the synthetic data are."""

    rows: int
    columns: tuple[str, ...]
    left_out: tuple[str, ...]  # columns of the source of which the release knows nothing


class ReleasedModel(Part):
    """`model.json` of a release."""

    notice: str
    made: datetime.date
    version: str
    domain: Domain
    mechanism: str
    method: str
    parameters: dict[str, Any]
    privacy: Privacy
    original: Gaussians  # in the units of the source
    normalised: Gaussians  # in the unit ball, as `domain.axes` map into it
    transcript: list[dict[str, Any]]  # what was released with noise, all of it
    proportions: list[Proportion]
    notes: list[str]
    synthetic: Synthetic

    @property
    def local(self) -> bool:
        """Whether the reports of the records are part of the release."""
        return self.privacy.randomises_records

    @property
    def files(self) -> tuple[str, ...]:
        """All files that the folder holds beside the checksums."""
        return (
            MODEL,
            CARD,
            PAGE,
            SYNTHETIC_CSV,
            SYNTHETIC_PARQUET,
            *((REPORTS,) if self.local else ()),
        )


def read(folder: Path) -> ReleasedModel:
    """The model of a release folder."""
    path = Path(folder) / MODEL
    try:
        return ReleasedModel.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}); a release folder holds one, made by `privmix release`."
        ) from error
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in problem["loc"]) or "the file"
        raise UserError(
            f"{path} is not the model of a release ({where}: {problem['msg'].lower()}); "
            "make one with `privmix release`."
        ) from error


def digest(path: Path) -> str:
    """The sha256 of a file."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def checksums(folder: Path, files: tuple[str, ...]) -> str:
    """The content of the checksums file, as `sha256sum --check` reads it."""
    return "".join(f"{digest(Path(folder) / name)}  {name}\n" for name in sorted(files))

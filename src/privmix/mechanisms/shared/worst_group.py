"""Aim at the worst group: a paid table of regions by groups, and a fit whose weights follow the groups that lose most.

Privacy. The parts of a synopsis and their noisy counts are measured first. `cut_regions` joins the parts to regions,
from the noisy counts and public values alone. Given the regions, the numbers of records by region × group are a
histogram: a record has one place and one value of the attribute, so it lies in exactly one cell. Its sensitivity is
that of any histogram, `privacy.sensitivity.counts`: 1 in L1 for a record added or removed, 2 for one replaced, m times
that for a person with at most m records. It is measured once, for all cells including empty ones, with Laplace noise of
that sensitivity over its ε (Dwork, McSherry, Nissim, Smith 2006, Theorem 1). The cost adds up with that of the synopsis
(adaptive basic composition). No weight touches a record: weights apply to noisy counts, after the measurements, so they
may have any size and everything below is post-processing.

Who pays. The ε comes from the share of the attributes (`group_share` of `attribute_share`), so the synopsis has exactly
the budget that it has without this option, and the claim of the whole run is unchanged. The table of attributes has
more noise.

The fit. The share of a group in a part is that of its region, shrunk towards the share in all records by as much as the
noise demands (`attribute_counts.shrink_rows`). Groups whose noisy number is below `HEARD` standard deviations are not
heard: they have the mean weight of the others. A fit θ has the regret R_g - L_g(θ) for a group g, where L_g is the
mean log-likelihood of the group's noisy counts. The reference R_g lies between L_g of the fit to all records and L_g of
the fit to this group alone (`AMBITION`; Samadi, Tantipongpipat, Morgenstern, Singh, Vempala 2018, "The price of fair
PCA", compare a group with its own optimum). Multiplicative weights (Freund
and Schapire 1999, Games Econ. Behav. 29) approach the fit with the smallest largest regret: in each round the counts of
a group have a weight that grows with its regret so far, and the mixture is fitted to the weighted counts. The result is
the round with the smallest largest regret. Round zero is the fit to all records.

The result is a model of all records, and not of a population in which the groups have other sizes: after each weighted
fit the weights π are estimated again from the noisy counts of all records (`boxes.estimate_weights`). So the option
decides where the components lie and what shape they have, and π says how many records each has.

What it can do. Most of what a group loses is the width of the leaves and the number of components: streets and
crossings narrower than a leaf, which the non-private fit sees. With a fixed number of components, weights only move
components from one group to another: on simulated towns, and on `mpls_stops`, the gap of the worst group to the
non-private fit stayed the same on average. With `finer: 2`, the number is the largest candidate that the noise supports
(`supported_components`), and not the one of the information criterion, which counts all records alike and leaves out
components of small groups. That is where the gain comes from; as many components without the aim gain as much there
(figures in `benchmarks/README.md`).

Other mechanisms do not have the option, because it needs counts that may be weighted after they are measured.
`noisy_moments`, `tree_then_moments`, `dp_em`, `dp_sgd` and `posterior_sample` measure sums over all records: weights
would have to enter before the noise (at most 1, from an earlier release of the sizes), and π would need a second
measurement. `output_noise` averages whole fits of blocks, in which a small group has hardly any record.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from privmix.artefacts.domain import Domain
from privmix.errors import MechanismFailure, suggest
from privmix.mechanisms.base import Spec
from privmix.mechanisms.shared.attribute_counts import shrink_rows
from privmix.mechanisms.shared.synopsis import Synopsis
from privmix.mixture import boxes
from privmix.mixture.model import FitResult, Mixture
from privmix.privacy import noise, sensitivity
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource
from privmix.privacy.sensitivity import Neighbours

LABEL = "group counts"
# Chosen on simulated towns with 4 to 8 groups of unequal size and place (`benchmarks/groups.py simulated`) at ε = 0.1,
# where steps of 20 and 40 and ambitions of 0.3 and 0.6 do not differ.
ROUNDS = 4
AMBITION = 0.3  # of the way from the fit to all records to the fit to one group: the reference of a regret
STEP_SIZE = 20.0  # of the logarithm of a weight, per nat of regret
RECORDS_PER_PARAMETER = 5.0  # effective records
LESS = 2  # a weighted fit has this part fewer searches; the weights of the next round move it again
HEARD = 3.0  # standard deviations
FEWEST_REGIONS, MOST_REGIONS = 4, 64
COST_NOTE = (
    "In the noisy counts, the aim changes the log-likelihood of the worst group by {:+.3f} nats per record, and that "
    "of all records by {:+.3f}."
)
PARTS = 4  # per side of a box, where a density is averaged over it


def group_size(name: str, domain: Domain, method: str) -> int:
    """Return the number of groups of this attribute. Refuse a dataset without it, or without places."""
    known = {each.name: each for each in domain.attributes if not each.state_of}
    if name not in known:
        hint = suggest(name, known) if known else "the dataset has no attributes"
        raise MechanismFailure(f"{method}: `worst_of: {name}` is no attribute of {domain.dataset}; {hint}")
    if not domain.axes:
        raise MechanismFailure(
            f"{method}: `worst_of: {name}` moves components in space, but {domain.dataset} has no coordinates; "
            "remove `worst_of`."
        )
    return len(known[name].values)


def noise_deviation(neighbours: Neighbours, epsilon: float) -> float:
    """Return the standard deviation of the noise in one cell."""
    return float(np.sqrt(2) * sensitivity.counts(neighbours).l1 / epsilon)


def count_regions(parts: int, size: int, rows: int, deviation: float) -> int:
    """Return the number of regions, from public values: an average cell has as many records as its noise deviates."""
    return min(parts, int(np.clip(rows / (size * deviation), FEWEST_REGIONS, MOST_REGIONS)))


def cut_regions(lower: np.ndarray, upper: np.ndarray, weights: np.ndarray, number: int) -> np.ndarray:
    """Return the region of each box, (n,): the heaviest region is cut in two along its longest side, until enough.

    A cut halves the weight of the region as nearly as whole boxes allow. Every region has a box.
    """
    centres, region = (lower + upper) / 2, np.zeros(len(weights), dtype=np.int64)
    for new in range(1, min(number, len(weights))):
        several = np.bincount(region, minlength=new) > 1
        heaviest = np.argmax(np.where(several, np.bincount(region, weights, minlength=new), -1.0))
        rows = np.flatnonzero(region == heaviest)
        axis = np.argmax(np.ptp(centres[rows], axis=0))
        rows = rows[np.argsort(centres[rows, axis], kind="stable")]
        reached = np.cumsum(weights[rows])
        place = int(np.clip(np.searchsorted(reached, reached[-1] / 2) + 1, 1, len(rows) - 1))
        region[rows[place:]] = new
    return region


def measure(
    cells: tuple[np.ndarray, np.ndarray],
    shape: tuple[int, int],
    *,
    epsilon: float,
    neighbours: Neighbours,
    source: NoiseSource,
    ledger: Ledger,
) -> np.ndarray:
    """Measure the number of records by region × group. `cells` are the region and the group of each record."""
    counts = np.bincount(np.ravel_multi_index(cells, shape), minlength=shape[0] * shape[1])
    reach = sensitivity.counts(neighbours).l1
    return noise.laplace(
        counts,
        sensitivity=reach,
        epsilon=epsilon,
        source=source,
        ledger=ledger,
        label=LABEL,
        coordinates=min(len(counts), round(reach)),
    )


@dataclass(frozen=True, eq=False)
class Groups:
    """Where the groups of one attribute are, from the noisy table."""

    name: str
    values: tuple[str, ...]
    region: np.ndarray  # (n,) of each part of the synopsis
    table: np.ndarray  # (regions, groups) noisy
    deviation: float
    counts: np.ndarray  # (n,) non-negative noisy counts of the parts

    @cached_property
    def members(self) -> np.ndarray:
        """The number of records of each group in each part, (n, groups)."""
        sizes = np.bincount(self.region, self.counts, len(self.table))
        return self.counts[:, None] * shrink_rows(self.table, sizes, self.deviation)[self.region]

    @cached_property
    def heard(self) -> np.ndarray:
        """The groups that stand out from the noise, and keep records where the table is made non-negative."""
        noisy = self.deviation * np.sqrt(len(self.table))
        return np.flatnonzero((self.table.sum(axis=0) > HEARD * noisy) & (self.members.sum(axis=0) > 0))

    def weights(self, logarithms: np.ndarray) -> np.ndarray:
        """Return the weighted count of each part, for weights of the heard groups; others have their mean weight."""
        own = np.exp(logarithms - logarithms.max())
        sizes = self.members[:, self.heard].sum(axis=0)
        every = np.full(len(self.values), float(own @ sizes / sizes.sum()))
        every[self.heard] = own
        return self.members @ every

    def notes(self) -> list[str]:
        """Return notes for readers on which groups the fit is for."""
        if len(self.heard) < 2:
            return [
                f"worst_of: no two groups of {self.name} stand out from the noise, so the mixture is fitted to all "
                "records alike."
            ]
        listed = ", ".join(self.values[group] for group in self.heard)
        rest = len(self.values) - len(self.heard)
        hidden = f" The noise hides {rest} other{'' if rest == 1 else 's'}." if rest else ""
        return [f"The mixture aims at the worst of these groups of {self.name}: {listed}.{hidden}"]


def read_groups(
    name: str, domain: Domain, synopsis: Synopsis, text: str, deviation: float, number: int
) -> Groups:
    """Return the groups from the transcript."""
    values = next(each.values for each in domain.attributes if each.name == name)
    table = np.frombuffer(base64.b64decode(text), dtype="<f8").reshape(-1, len(values))
    counts = synopsis.weights()
    region = cut_regions(synopsis.lower, synopsis.upper, counts, number)
    return Groups(name, values, region, table, deviation, counts)


def supported_components(spec: Spec, records: float) -> int:
    """Return the largest candidate with enough records for each of its parameters, else the smallest candidate.

    The information criterion of `base.best_fit` counts all records alike, so it leaves out components that describe a
    small group.
    """
    each = 1 + len(spec.domain.axes) * (len(spec.domain.axes) + 3) // 2
    fit = [number for number in spec.candidates if records >= RECORDS_PER_PARAMETER * number * each]
    return max(fit, default=min(spec.candidates))


def fit_worst(
    synopsis: Synopsis, groups: Groups, spec: Spec, *, rng: np.random.Generator, searches: int
) -> tuple[FitResult, list[str]]:
    """Fit the mixture with the smallest largest regret of the groups. Return it with its notes."""
    heard = groups.heard
    if len(heard) < 2:
        first, notes = synopsis.fit(spec, rng=rng, searches=searches)
        return first, [*notes, *groups.notes()]
    chosen_note = []
    if spec.candidates:
        number = supported_components(spec, synopsis.effective_records)
        chosen_note, spec = [spec.choice_note(number)], spec.with_components(number)
    first, notes = synopsis.fit(spec, rng=rng, searches=searches)
    notes = [*chosen_note, *notes]
    members = groups.members[:, heard]
    sizes = members.sum(axis=0)

    def fit(weights: np.ndarray) -> Mixture:
        return synopsis.fit_counts(weights, spec, rng=rng, searches=-(-searches // LESS)).mixture

    def densities(mixture: Mixture) -> np.ndarray:
        return boxes.log_mean_density(synopsis.lower, synopsis.upper, mixture, PARTS)

    def scores(mixture: Mixture) -> np.ndarray:
        return np.asarray(densities(mixture) @ members / sizes)

    alone = [scores(fit(own))[g] for g, own in enumerate(members.T)]
    reference = scores(first.mixture) + AMBITION * (alone - scores(first.mixture))
    found: Sequence[tuple[float, Mixture]] = []
    mixture, logarithms = first.mixture, np.zeros(len(heard))
    for round_ in range(ROUNDS + 1):
        regrets = reference - scores(mixture)
        found = [*found, (float(regrets.max()), mixture)]
        if round_ < ROUNDS:
            logarithms = logarithms + STEP_SIZE * regrets / np.sqrt(round_ + 1)
            weighted = fit(groups.weights(logarithms))
            mixture = boxes.estimate_weights(synopsis.lower, synopsis.upper, groups.counts, weighted, PARTS)
    chosen = min(found, key=lambda each: each[0])[1]
    worst = int(np.argmax(reference - scores(first.mixture)))
    gained = float((scores(chosen) - scores(first.mixture))[worst])
    apart = densities(chosen) - densities(first.mixture)
    cost = float(apart @ groups.counts / groups.counts.sum())
    return replace(first, mixture=chosen), [*notes, *groups.notes(), COST_NOTE.format(gained, cost)]

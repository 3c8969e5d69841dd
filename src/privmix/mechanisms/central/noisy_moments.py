"""Noisy moments: EM that measures all statistics of an iteration at once, at each component's own scale.

Privacy. Iteration t has a mixture that is public (t = 1) or computed from earlier measurements and public values. With
it each record x has responsibilities γ_k ≥ 0, Σ γ_k = 1, and places z_k = L_k⁻¹(x - μ_k), moved along their direction
to ‖z_k‖ ≤ c. It contributes s(x) = (a γ_k, b γ_k z_k, e γ_k z_k z_kᵀ)_k to one sum, matrices by their upper triangle
with √2 off the diagonal. ‖s‖² = Σ γ_k² (a² + b²‖z_k‖² + e²‖z_k‖⁴) ≤ S² = a² + b²c² + e²c⁴, because Σ γ_k² ≤ 1: adding
or removing a record changes the sum by at most S. Replacing it by x' changes it by at most √2 S, because ⟨s, s'⟩ = Σ
γ_k γ'_k (a² + b² t_k + e² t_k²) with t_k = z_k·z'_k is not negative when b² ≤ 2ae, which holds for the weights used. A
person of at most m records changes it by at most m times as much (triangle inequality). The sum is measured with
Gaussian noise of σ = ν times that sensitivity, where ν is the noise multiplier. This is (1/ν)-GDP for any earlier
measurements. T such measurements, with T fixed beforehand from public values, are (√T/ν)-GDP (Dong, Roth, Su 2022,
Corollary 2), and their (ε, δ) is exact (Balle and Wang 2018, Theorem 8). Everything else is post-processing of measured
and public values: counts (N enters only if the relation makes it public), shrinkage, floors, splitting, merging,
averaging.

Relation to *objective perturbation*. This is also objective perturbation, of one M-step. The M-step maximises ⟨η, S⟩ -
N A(η) over natural parameters η, where A is the log-partition function and S the summed statistics. Adding a random
linear term ⟨η, Z⟩ to that objective gives ⟨η, S + Z⟩ - N A(η), which is the M-step on S + Z. So perturbing the
objective is perturbing the moments, with N public or measured, and S + Z projected to moments that some distribution
has. The guarantee is that of the Gaussian measurement. The theorem of Chaudhuri, Monteleoni and Sarwate 2011 on convex
losses is not used and would not apply.

Method. One component that starts at the public box finds the place and shape of the whole. Components are then split
across their longest axis until there are W, up to four times the requested number. In each round of search they are
merged to half as many, where that costs the least divergence (`mixture.search`), and split again. This separates two
clusters in one component, and joins two components in one cluster. The wide mixture is a private picture of the data. K
components are fitted to a sample of it with the full search of `em.fit`, which sees no record and costs nothing. The
last iterations refine these K, and the result is the average of their later half.

Attributes. With `attributes: together`, components also have shares of the values of each attribute, which take part in
the responsibilities, and a record also contributes f γ_k at the value of each of the A attributes. Their squared norm
f² A Σ γ_k² ≤ A f² is added to S², and their inner products are not negative, so all of the above holds with the larger
S (`privacy.sensitivity.joint`). f gives the attributes the part `attribute_share` of S², which is that part of μ². Some
splits are by an attribute (`mixture.mixed_search`), because groups of records may lie at one place and differ in an
attribute, and how coordinates depend on the attribute follows only if components differ in it. With `attributes:
after`, the mixture sees the coordinates alone, and one table is measured after it (`shared.attribute_counts`).

Records that lack coordinates. A record may lack any of q coordinates, which the public domain lists. It contributes its
expected moments given the coordinates that it has: z_k is then the expected place, still clipped to c, and z_k z_kᵀ + v
P_k replaces z_k z_kᵀ, where v ≤ 1 and P_k is a projection onto at most q dimensions with P_k z_k = 0. So e²q is added
to S², and inner products only grow (`privacy.sensitivity.joint`). The iteration is EM for the likelihood of what is
there. It has no bias if a coordinate is missing at random given the others. All records are counted, so N stays public
where it was. No split is by a state: half of its components would know nothing of the coordinate. On simulated records
(K = 4, N = 50,000, ε = 1, half of them without a coordinate at random), such splits lost 0.07 nats in two dimensions
and 0.03 in four. States are counted like other attributes, but take no part in the responsibilities: with blanks that
depend on a coordinate, they would move components to where the blanks are. So blanks that depend on the component, and
on nothing that is there, are not separated by it.

Marginals. With `marginal_share` s > 0, the counts of each column by itself are measured last, with s of μ², and the
mixture is fitted again so that it agrees with them (`shared.marginals`). This is for synthetic tables.

When to use it: with about a thousand records or more per component, from one to about thirty dimensions. Nothing in it
grows with the volume of the box. With few records, or at a small ε, the noise allows fewer components than requested,
and a note says so.

Approximations. The loss that chooses T and the number of components is a second-order prediction for components of
equal weight. A search does not guarantee the best optimum.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from privmix.mechanisms.base import CentralMechanism, Randomness, Records, Release, Spec, mechanism_dataclass
from privmix.mechanisms.shared import marginals
from privmix.mechanisms.shared.attribute_counts import to_text
from privmix.mechanisms.shared.joint_attributes import has_few_values
from privmix.mechanisms.shared.joint_moments import (
    AnyModel,
    MomentScheme,
    Refinement,
    predicted_loss,
    refine,
    scheme,
)
from privmix.mixture import em, mixed_em
from privmix.mixture.coded import nothing_coded, observe_codes, observe_incomplete_codes
from privmix.mixture.mixed import MixedMixture
from privmix.mixture.mixed_search import (
    LEAST_PART,
    balance,
    distance,
    drop_components,
    reduce_mixed,
    split_attribute,
    split_axes,
)
from privmix.mixture.model import Mixture
from privmix.mixture.moments import IncompleteObservations, Observations, observe_incomplete
from privmix.mixture.search import reduce_components, split_components
from privmix.privacy.accounting import Budget, Theorem, claim, gaussian_epsilon, gaussian_mu
from privmix.privacy.calibration import equal_shares
from privmix.privacy.ledger import Ledger
from privmix.privacy.sensitivity import Neighbours

LONGEST = 40  # measurements; more bring little on well-resolved data
SHORTEST = 12  # measurements of a mixture
ALONE = 8  # measurements of a single component, which needs no search, if records have all coordinates
WHOLE = 3  # measurements for the first component
ROUND = 3  # measurements in a round of search
ROUNDS = 2
EMPTY = 1.5  # deviations of a count; a component without records has about 1.1
# A first split by an attribute needs this many components, and this Bhattacharyya distance of its halves: that of two
# normal distributions of equal width, one standard deviation apart. On simulated records with many clusters and halves
# at 0.09, such a split cost 0.36 nats per record of the coordinates.
FEWEST_TO_CUT, FAR_APART = 4, 0.12
WIDEST = 4  # components of the wide mixture per requested component
SAMPLE = 20_000  # rows drawn from the wide mixture
# Predicted nats per record that the noise of one iterate may cost:
TOLERABLE = 0.15  # in a schedule longer than the shortest
BEARABLE = 0.6  # in the wide mixture
HOPELESS = 1.0  # in the shortest schedule; above it, there are too many components for the noise


@dataclass(frozen=True)
class Schedule:
    """The number of components, and the number of measurements for each phase. These add up to T."""

    n_components: int
    width: int  # components of the wide mixture; n_components if the noise allows no more
    whole: int
    growing: int  # after each split
    rounds: int
    settling: int  # of the wide mixture
    refining: int
    trial: int = 0  # of the measurements for the whole, those of two halves by an attribute

    @property
    def splittings(self) -> int:
        """Number of splits until there are `width` components."""
        return math.ceil(math.log2(self.width))

    @property
    def spare_splittings(self) -> int:
        """Number of splits beyond those that make the requested components: the wide mixture has room for them."""
        return int(math.log2(self.width / self.n_components))

    @property
    def releases(self) -> int:
        """T, the number of measurements."""
        once = self.whole + self.settling + self.refining
        return once + self.growing * self.splittings + ROUND * self.rounds


@mechanism_dataclass
class NoisyMoments(CentralMechanism):
    """`iterations`: T, the number of measurements; if not set, it is chosen from public values.

    `attributes`: whether attributes take part in the clustering (together), or are measured given its result (after);
    if not set, `takes_part` decides from public values. `marginal_share`: the part of μ² for counts of each column.
    """

    completes_records: ClassVar[bool] = True
    for_table: ClassVar[Mapping[str, Any]] = {"marginal_share": 0.2}

    iterations: Annotated[int, Field(ge=1)] | None = None
    attributes: Literal["together", "after"] | None = None
    marginal_share: Annotated[float, Field(ge=0, lt=1)] = 0.0

    def takes_part(self, spec: Spec) -> bool:
        """Return whether the attributes take part in the clustering.

        By default they do if their distribution in a component has no more free numbers than its Gaussian. With more,
        the components would separate the attributes at the expense of the coordinates. On simulated records (15
        clusters, K = 8, N = 10,000, ε = 1) where this rule lets them take part, the coordinates lost at most 0.001 nats
        in one or two dimensions, 0.04 to 0.06 in three and 0.03 to 0.12 in five. The dependence of a coordinate on an
        attribute was 1.7 to 6 times as strong as with `after` in up to three dimensions.
        """
        categories = [each for each in spec.domain.attributes if not each.state_of]
        if not categories or not self.attribute_share:
            return False
        if self.attributes is not None:
            return self.attributes == "together"
        return has_few_values(spec.domain)

    def table_share(self, spec: Spec) -> float:
        """Return the part of the budget for a table of attributes after the mixture."""
        return 0.0 if self.takes_part(spec) else self.attribute_share

    def value_share(self, spec: Spec) -> float:
        """Return the part of each measurement's μ² for attributes that take part in it."""
        return self.attribute_share if self.takes_part(spec) else 0.0

    def only_gaussian(self, spec: Spec) -> bool:
        """All measurements are Gaussian."""
        return True

    @property
    def accountant(self) -> Theorem:
        """Gaussian measurements compose exactly."""
        return "exact"

    def schedule(self, spec: Spec, budget: Budget, neighbours: Neighbours) -> Schedule:
        """Plan the measurements from public values and parameters only."""
        affordable = [
            k
            for k in range(2, spec.n_components + 1)
            if SHORTEST * self.loss(spec, k, budget, neighbours) <= HOPELESS
        ]
        n_components = max(affordable, default=1)
        loss = self.loss(spec, n_components, budget, neighbours)
        releases = self.iterations
        if releases is None:
            tolerable = int(np.clip(TOLERABLE / loss, SHORTEST, LONGEST))
            releases = ALONE if n_components == 1 and not spec.domain.states else tolerable
        plan = _plan_schedule(n_components, releases, loss)
        cuts = self.takes_part(spec) and n_components >= FEWEST_TO_CUT
        return replace(plan, trial=int(cuts and not plan.spare_splittings and plan.whole > 1))

    def loss(self, spec: Spec, n_components: int, budget: Budget, neighbours: Neighbours) -> float:
        """Return the predicted loss of a single measurement with the whole budget."""
        mu = math.sqrt(1 - self.value_share(spec)) / equal_shares(0, 1, budget, "exact").noise_multiplier
        return predicted_loss(spec.domain.rows, len(spec.domain.axes), n_components, mu, neighbours)

    def fit(self, view: Records, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """Fit one component, then split, search and refine."""
        neighbours = self.relation(spec)
        for_moments, for_marginals = self.split(budget)
        plan = self.schedule(spec, for_moments, neighbours)
        share = equal_shares(0, plan.releases, for_moments, "exact")
        ledger = Ledger()
        transcript: list[dict[str, Any]] = []
        observations = self.observations(view, spec)

        def run(start: AnyModel, iterations: int, label: str) -> Refinement[AnyModel]:
            refined = refine(
                observations,
                spec,
                start,
                iterations=iterations,
                noise_multiplier=share.noise_multiplier,
                neighbours=neighbours,
                source=rng.noise,
                ledger=ledger,
                label=label,
                hold=holds(label),
                attribute_share=self.value_share(spec),
                absent=len(spec.domain.states),
            )
            transcript.extend(refined.transcript)
            return refined

        fitted = self.carry_out(run, plan, spec, share.noise_multiplier, rng.search)
        if for_marginals is not None:
            columns = self.columns(spec, for_marginals)
            table = marginals.measure(
                view,
                columns,
                noise_multiplier=for_marginals,
                neighbours=neighbours,
                source=rng.noise,
                ledger=ledger,
            )
            transcript.append({"marginals": to_text(table)})
            deviation = for_marginals * marginals.reach(len(columns.sizes), neighbours)
            fitted = marginals.fit_again(fitted, table, columns, deviation, rng.search)
        spent = claim(ledger.events, budget, "exact")
        loss = plan.releases * self.loss(spec, plan.n_components, for_moments, neighbours)
        return Release(
            fitted.gaussians,
            ledger.events,
            spent,
            transcript,
            notes=[*_notes(plan, spec, loss), *self.table_note(fitted.n_components)],
            shares=fitted.shares,
        )

    def split(self, budget: Budget) -> tuple[Budget, float | None]:
        """Return the budget of the moments, and the noise multiplier of the marginals if they are measured."""
        if not self.marginal_share:
            return budget, None
        mu = gaussian_mu(budget.epsilon, budget.delta)
        left = gaussian_epsilon(math.sqrt(1 - self.marginal_share) * mu, budget.delta)
        return replace(budget, epsilon=left), 1 / (math.sqrt(self.marginal_share) * mu)

    def columns(self, spec: Spec, noise_multiplier: float) -> marginals.Columns:
        """Return the columns whose marginals are measured: coordinates, and attributes that took part."""
        taking = [each.name for each in spec.domain.attributes] if self.value_share(spec) else []
        return marginals.plan_columns(spec, taking, noise_multiplier, self.relation(spec))

    def most_components(self, spec: Spec) -> int:
        """Return the largest number of components that the mixture may have."""
        return spec.n_components * (marginals.FINER if self.marginal_share else 1)

    def table_note(self, n_components: int) -> list[str]:
        """Return the note about the fit to the marginals, if there is one."""
        again = f"The mixture was fitted again to the measured counts of each column, with {n_components} components."
        return [again] if self.marginal_share else []

    def observations(self, view: Records, spec: Spec) -> Observations | IncompleteObservations:
        """Return the records that the measurements see, with equal records merged."""
        points, absent = spec.inside(view.points), spec.absent(view)
        if not self.value_share(spec):
            return (
                observe_incomplete(points, absent)
                if absent is not None and len(view)
                else spec.observations(points)
            )
        sizes = {attribute.name: len(attribute.values) for attribute in spec.domain.attributes}
        if not len(view):
            return nothing_coded(spec.domain.lower, len(sizes))
        if absent is not None:
            deciding = sum(not each.state_of for each in spec.domain.attributes)  # states are the last
            return observe_incomplete_codes(points, view.codes, sizes, absent, deciding)
        return observe_codes(points, view.codes, sizes)

    def scheme(self, spec: Spec) -> MomentScheme:
        """Return the weights of a measurement, with attributes if they take part in it."""
        share = self.value_share(spec)
        return scheme(
            len(spec.domain.axes),
            len(spec.domain.attributes) if share else 0,
            share,
            len(spec.domain.states),
        )

    def carry_out(
        self, run: Any, plan: Schedule, spec: Spec, noise_multiplier: float, rng: np.random.Generator
    ) -> MixedMixture:
        """Carry out the schedule, with the attributes if they take part."""
        if self.value_share(spec):
            return _run_mixed_schedule(run, plan, spec, self.empty_weight(spec, noise_multiplier), rng)
        return MixedMixture(_run_schedule(run, plan, spec, rng))

    def empty_weight(self, spec: Spec, noise_multiplier: float) -> float:
        """Return the weight below which a component is dropped if attributes take part."""
        shape = self.scheme(spec)
        deviation = noise_multiplier * shape.sensitivity(self.relation(spec)) / shape.count
        return EMPTY * deviation / spec.domain.rows


def holds(label: str) -> bool:
    """Return whether a phase keeps components within the public box (`hold_in_box`): only the last.

    In a search, components that drift with their noise find clusters: holding them from the start loses 0.03 nats per
    record on `checkins` at ε = 1. Holding them in the last phase only was then chosen on simulated mixtures.
    """
    return label == "refining"


def _plan_schedule(n_components: int, releases: int, loss: float) -> Schedule:
    """Plan measurements for the whole, after each split, for refinement (three in ten) and for the wide mixture."""
    if n_components == 1:
        return Schedule(1, 1, whole=0, growing=0, rounds=0, settling=0, refining=releases)
    bearable = math.sqrt(BEARABLE / (releases * loss))
    width = int(n_components * min(max(bearable, 1.0), WIDEST))
    splittings = math.ceil(math.log2(width))
    whole = min(WHOLE, releases // 4)
    growing = 1 if releases - whole > splittings else 0
    left = releases - whole - growing * splittings
    refining = min(max(3 * releases // 10, 1), left) if width > n_components else left
    settling = left - refining
    rounds = min(ROUNDS, settling // (2 * ROUND)) if width >= 2 * n_components else 0
    return Schedule(n_components, width, whole, growing, rounds, settling - ROUND * rounds, refining)


def _run_schedule(
    run: Callable[[Mixture, int, str], Refinement], plan: Schedule, spec: Spec, rng: np.random.Generator
) -> Mixture:
    """Carry out the schedule. `run` makes measurements; everything between them is post-processing."""
    mixture = run(_box(spec), plan.whole, "whole").last
    while mixture.n_components < plan.width:
        more = min(mixture.n_components, plan.width - mixture.n_components)
        mixture = run(split_components(mixture, more, spec.floor), plan.growing, "growing").last
    for _ in range(plan.rounds):
        half = reduce_components(mixture, plan.width // 2)
        mixture = run(split_components(half, half.n_components, spec.floor), ROUND, "search").last
    if plan.width > plan.n_components:
        wide = run(mixture, plan.settling, "wide").mixture
        mixture = _reduce_to(wide, plan.n_components, spec, rng)
    return run(mixture, plan.refining, "refining").mixture


def _run_mixed_schedule(
    run: Callable[[MixedMixture, int, str], Refinement[MixedMixture]],
    plan: Schedule,
    spec: Spec,
    empty: float,
    rng: np.random.Generator,
) -> MixedMixture:
    """Carry out the schedule with attributes: every second split is by an attribute, while there are splits to spare.

    The attribute whose values divide the components most evenly comes first. States of coordinates do not count.
    Without splits to spare, the first split is by that attribute only if the measured halves are far apart in the
    coordinates. Components of a weight below `empty` are dropped from the wide mixture and from the result. They hold
    hardly more than noise, which has any place, shape and shares.
    """
    even = {
        each.name: np.full((1, len(each.values)), 1 / len(each.values)) for each in spec.domain.attributes
    }
    waiting = [each.name for each in spec.domain.attributes if not each.state_of]
    spare, splits = plan.spare_splittings, 0
    mixture = run(MixedMixture(_box(spec), even), plan.whole - plan.trial, "whole").last
    if plan.trial:
        name = max(waiting, key=partial(balance, mixture))
        cut = run(split_attribute(mixture, 1, spec.floor, name), plan.trial, "whole").last
        if balance(mixture, name) >= LEAST_PART and distance(cut, 0, 1) >= FAR_APART:
            mixture = run(cut, plan.growing, "growing").last  # one split less is to come
    while mixture.n_components < plan.width:
        more = min(mixture.n_components, plan.width - mixture.n_components)
        if splits % 2 == 0 and splits // 2 < spare and waiting:
            name = max(waiting, key=partial(balance, mixture))
            waiting.remove(name)
            mixture = split_attribute(mixture, more, spec.floor, name)
        else:
            mixture = split_axes(mixture, more, spec.floor)
        splits += 1
        mixture = run(mixture, plan.growing, "growing").last
    for _ in range(plan.rounds):
        half = reduce_mixed(mixture, plan.width // 2)
        mixture = run(split_axes(half, half.n_components, spec.floor), ROUND, "search").last
    if plan.width > plan.n_components:
        wide = drop_components(run(mixture, plan.settling, "wide").mixture, empty)
        mixture = _reduce_mixed_to(wide, plan.n_components, spec, rng)
    else:
        mixture = drop_components(mixture, empty)
        while mixture.n_components < plan.n_components:
            more = min(mixture.n_components, plan.n_components - mixture.n_components)
            mixture = split_axes(mixture, more, spec.floor)
    return drop_components(run(mixture, plan.refining, "refining").mixture, empty)


def _reduce_mixed_to(
    wide: MixedMixture, n_components: int, spec: Spec, rng: np.random.Generator
) -> MixedMixture:
    """Fit fewer components to a sample of a measured mixture over coordinates and attributes."""
    points, codes = marginals.draw_inside(wide, SAMPLE, spec, rng)
    sizes = {each.name: len(each.values) for each in spec.domain.attributes}
    starts = [reduce_mixed(wide, n_components).gaussians, None]
    found = [
        mixed_em.fit(points, codes, sizes, n_components, floor=spec.floor, rng=rng, start=start)
        for start in starts
        if start is None or start.n_components == n_components
    ]
    return max(found, key=lambda each: each.objective).mixture


def _reduce_to(wide: Mixture, n_components: int, spec: Spec, rng: np.random.Generator) -> Mixture:
    """Fit fewer components to a sample of a measured mixture: the best of a merged start and a free search."""
    sample, _ = marginals.draw_inside(MixedMixture(wide), SAMPLE, spec, rng)
    starts = [reduce_components(wide, n_components), None]
    found = [em.fit(sample, n_components, floor=spec.floor, rng=rng, start=start) for start in starts]
    return max(found, key=lambda each: each.objective).mixture


def _box(spec: Spec) -> Mixture:
    """Return one component with the mean and the variances of the uniform distribution on the public box."""
    lower, upper = spec.domain.lower, spec.domain.upper
    variances = np.maximum((upper - lower) ** 2 / 12, spec.floor)
    return Mixture(np.ones(1), (lower + upper)[None] / 2, np.diag(variances)[None])


def _notes(plan: Schedule, spec: Spec, loss: float) -> list[str]:
    notes = []
    if plan.n_components < spec.n_components:
        notes.append(
            f"At this budget the noise allows {plan.n_components} of the {spec.n_components} requested components "
            f"({spec.domain.rows} records). A larger epsilon or more records would allow more."
        )
    if loss > HOPELESS:
        notes.append(
            "At this budget the noise of an iteration is as large as the measured moments: the mixture is mostly noise."
        )
    return notes

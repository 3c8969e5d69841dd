"""Tree response: each record reports, with noise, its part of the public box at one level of a public binary tree.

Privacy. The levels are functions of public values (box, resolution, number of reports, ε). Each record draws a level,
independently of its values, and answers with its part at that level through GRR or optimised local hashing, one ε-LDP
channel. The report is ε-LDP, as `privacy.oracles.survey` shows. No question and no other report depends on it.
Everything else is post-processing of the reports: the choice of parts, the averaging over levels, norm-sub, the fit.

The noise of a hashed answer does not depend on the number of parts (Wang, Blocki, Li, Jha 2017). So a few levels with
many times more parts each are better than many levels of halves: more persons answer at each level. The deeper levels
have up to a thousand million parts. Only those parts are evaluated that lie in a part with a significant share at the
level above.

When to use it: for up to three coordinates, if no curator is trusted with the records. It is the most accurate
mechanism here that asks all persons at once. `adaptive_tree_response` is more accurate and asks in rounds.

Approximations. Records are taken to be spread within their part as `mixture.boxes` describes. The variances of
estimated shares are those of the consistent shares, and siblings are taken as independent (`share_tree`). The parts
that are opened were chosen because their estimates were high, so on average these estimates are a little too high. The
levels and the significance threshold were chosen by held-out likelihood on the Gowalla and Minneapolis data.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from privmix.errors import MechanismFailure
from privmix.mechanisms.base import Spec, mechanism_dataclass
from privmix.mechanisms.local.base import (
    CoordinateReports,
    LocalMechanism,
    Plan,
    decode_reports,
    responses_per_person,
)
from privmix.mechanisms.shared.partitions import Bisection, bisect_to_resolution
from privmix.mechanisms.shared.report_likelihoods import (
    cell_shares,
    spread_points,
    survey_responsibilities,
)
from privmix.mechanisms.shared.share_tree import ShareEstimates, ShareTree, fit_shares
from privmix.mixture.model import FitResult, Mixture
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource
from privmix.privacy.oracles import GeneralizedResponse
from privmix.privacy.oracles.survey import (
    Survey,
    SurveyOracle,
    pack_reports,
    row_type,
    survey_oracle,
    unpack_reports,
)

MOST_DIMENSIONS = 3
MOST_HALVINGS = 30  # largest number of parts that an answer can be hashed from, in halvings
FIRST_HALVINGS = 8  # of the first level, at most
LEAST_VISIBLE = 4.5  # visible halvings up to which there is one level
LEVELS_A_HALVING = 1.2  # further levels for each further visible halving
HALVINGS = 5  # from each level to the next
ALONE = 1.5  # extra halvings if there is only one level
SIGNIFICANT = 2.5  # standard deviations of an empty part's estimated share
MOST_OPENED = 100  # parts of a level that are opened: those with the largest shares


@mechanism_dataclass
class TreeResponse(LocalMechanism):
    """`searches`: restarts of the fit, which cost no privacy."""

    max_coordinates: ClassVar[int | None] = MOST_DIMENSIONS

    searches: Annotated[int, Field(ge=1, le=1000)] = 8

    def reports_per_person(self, epsilon: float, limit: int) -> int:
        """Return the number of reports that tells most."""
        return responses_per_person(epsilon, limit)

    def questions(self, spec: Spec, plan: Plan) -> tuple[Bisection, list[int], list[SurveyOracle]]:
        """Return the halvings of the box, the depth of each level, and the oracle of each level."""
        halving = halvings(spec, "tree_response")
        depths = level_depths(halving.depth, plan)
        return halving, depths, [survey_oracle(1 << depth, plan.budget.epsilon) for depth in depths]

    def answer(
        self, points: np.ndarray, spec: Spec, plan: Plan, source: NoiseSource, ledger: Ledger
    ) -> CoordinateReports:
        """Return one answer per record, at the level that it drew."""
        halving, depths, oracles = self.questions(spec, plan)
        survey = Survey(
            [1.0] * len(depths), epsilon=plan.budget.epsilon, source=source, label="level and part"
        )
        codes, turns = halving.codes(points), survey.deal(len(points), ledger)
        rows = np.empty(len(points), dtype=row_type(oracles))
        for level, (depth, oracle) in enumerate(zip(depths, oracles, strict=True)):
            own = turns == level
            reports = survey.ask(level, oracle, codes[own] >> (halving.depth - depth))
            rows[own] = pack_reports(reports, level, rows.dtype)
        return CoordinateReports({"part": rows})

    def model(
        self, answers: CoordinateReports, spec: Spec, plan: Plan, rng: np.random.Generator
    ) -> FitResult:
        """Open the parts with significant shares level by level, make shares consistent, and fit the leaves."""
        halving, depths, oracles = self.questions(spec, plan)
        rows = decode_reports(answers.columns["part"], row_type(oracles))
        reports = [unpack_reports(rows, level, oracle) for level, oracle in enumerate(oracles)]
        codes, levels, tree = expand_tree(depths, oracles, reports, plan)
        noise = oracles[0].cell_deviation(len(reports[0])) if len(reports[0]) else 1.0
        leaves, shares = tree.leaves, tree.consistent_shares()
        lower, upper = halving.boxes(codes[leaves], np.array(depths)[levels[leaves]])
        fit = fit_shares(
            lower,
            upper,
            shares[leaves],
            tree.subtree_estimates()[1][leaves],
            spec,
            noise=noise,
            rng=rng,
            searches=self.searches,
        )
        if not (tree.estimates[levels == 0] > SIGNIFICANT * noise).any():
            note = "No part of the public box stands out from the noise: the mixture is mostly noise."
            return replace(fit, notes=(*fit.notes, note))
        return fit

    def responsibilities(
        self, answers: CoordinateReports, mixture: Mixture, spec: Spec, plan: Plan
    ) -> Iterator[np.ndarray]:
        """Yield P(component | report) through the oracle of the report's level."""
        halving, depths, oracles = self.questions(spec, plan)
        codes = halving.codes(spread_points(mixture, spec))
        known = [
            cell_shares(codes >> (halving.depth - depth), mixture, oracle)
            for depth, oracle in zip(depths, oracles, strict=True)
        ]
        rows = decode_reports(answers.columns["part"], row_type(oracles))
        yield from survey_responsibilities(rows, oracles, known, mixture.weights)


def halvings(spec: Spec, method: str) -> Bisection:
    """Return the public halvings of the box."""
    dimensions = len(spec.domain.axes)
    if dimensions > MOST_DIMENSIONS:
        raise MechanismFailure(
            f"{method} works for up to {MOST_DIMENSIONS} coordinates, but {spec.domain.dataset} has {dimensions}; "
            "use `gaussian_input` instead."
        )
    whole = bisect_to_resolution(spec.domain.lower, spec.domain.upper, spec.domain.resolution)
    return Bisection(whole.lower, whole.upper, whole.axes[:MOST_HALVINGS] or (0,))


def level_depths(deepest: int, plan: Plan) -> list[int]:
    """Return the number of halvings of each level, from public values.

    The first level has as many parts as can have a share that stands out, up to a limit. If these are few, there are
    few levels too: each level takes persons from the others, and the deeper levels only show shares that stand out. If
    a second level would be finer than the resolution, it is at the resolution.
    """
    visible = visible_halvings(plan)
    levels = 1 + max(0, round(LEVELS_A_HALVING * (visible - LEAST_VISIBLE)))
    first = min(max(round(visible + (ALONE if levels == 1 else 0)), 1), FIRST_HALVINGS, deepest)
    depths = list(range(first, deepest + 1, HALVINGS))[:levels]
    if len(depths) == 1 < levels and first < deepest:
        return [first, deepest]
    return depths


def visible_halvings(plan: Plan) -> float:
    """Return log₂ 1/σ, where σ is the noise of an empty part's share if all persons answered one question."""
    oracle = survey_oracle(1 << 20, plan.budget.epsilon)
    return -math.log2(oracle.cell_deviation(max(plan.reports, 1)))


def expand_tree(
    depths: list[int], oracles: list[SurveyOracle], reports: list[np.ndarray], plan: Plan
) -> tuple[np.ndarray, np.ndarray, ShareTree]:
    """Return the evaluated parts, as codes and levels, and the tree of their estimated shares.

    A level without answers is skipped. Without answers at the first level, nothing is known.
    """
    if not len(reports[0]):
        return uniform_tree(1 << depths[0])
    holders, halved, above = np.zeros(1, dtype=np.int64), 0, np.array([-1])
    codes, levels, parents, told = [], [], [], []
    passed = 0
    for level in (number for number, own in enumerate(reports) if len(own)):
        oracle, own, length = oracles[level], reports[level], 1 << (depths[level] - halved)
        starts = holders * length
        support = run_support(oracle, own, starts, length).ravel()
        told.append(ShareEstimates.from_support(oracle, support, len(own), plan.per_person))
        codes.append((starts[:, None] + np.arange(length)).ravel())
        levels.append(np.full(len(support), level))
        parents.append(np.repeat(above, length))
        share = told[-1].estimates
        standing_out = np.flatnonzero(share > SIGNIFICANT * oracle.cell_deviation(len(own)))
        largest = standing_out[np.argsort(-share[standing_out], kind="stable")[:MOST_OPENED]]
        if not len(largest):
            break
        holders, halved, above = codes[-1][largest], depths[level], passed + largest
        passed += len(share)
    nodes = np.split(np.arange(sum(map(len, codes))), np.cumsum([len(each) for each in codes])[:-1])
    tree = ShareTree.pool(np.concatenate(parents), nodes, told)
    return np.concatenate(codes), np.concatenate(levels), tree


def uniform_tree(parts: int) -> tuple[np.ndarray, np.ndarray, ShareTree]:
    """Return the same for no answers: equal shares, as uncertain as they are large."""
    equal = np.full(parts, 1 / parts)
    return (
        np.arange(parts),
        np.zeros(parts, dtype=np.int64),
        ShareTree(np.full(parts, -1), equal, np.square(equal)),
    )


def run_support(oracle: SurveyOracle, reports: np.ndarray, starts: np.ndarray, length: int) -> np.ndarray:
    """Return the number of reports that support each answer of some runs."""
    if isinstance(oracle, GeneralizedResponse):
        return oracle.support(reports)[starts[:, None] + np.arange(length)]
    return oracle.support_of_runs(reports, starts, length)

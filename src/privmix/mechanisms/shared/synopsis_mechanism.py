"""Mechanisms that measure a private synopsis and fit a mixture to it: `noisy_tree` and `noisy_grid`.

Groups. With `worst_of`, a second measurement counts the records by region and group. Earlier measurements fix the
regions, so each record is in exactly one cell: a histogram of the sensitivity of any other, measured once with Laplace
noise (`shared.worst_group` has the proof). A part of the budget of the attributes pays for it, so the synopsis and the
claim of the whole run are the same with and without it. The fit to the noisy counts then aims at the worst group
instead of the average, which is post-processing, and costs the average some accuracy.
"""

import base64
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from privmix.errors import UserError
from privmix.mechanisms.base import (
    CentralMechanism,
    FreeChoice,
    Randomness,
    Records,
    Release,
    Spec,
    mechanism_dataclass,
)
from privmix.mechanisms.shared import worst_group
from privmix.mechanisms.shared.synopsis import Synopsis
from privmix.mechanisms.shared.worst_group import Groups
from privmix.privacy.accounting import Budget, claim
from privmix.privacy.ledger import Ledger
from privmix.privacy.noise import NoiseSource
from privmix.privacy.privtree import TreeShape
from privmix.privacy.sensitivity import Neighbours


@mechanism_dataclass
class SynopsisMechanism(FreeChoice, CentralMechanism):
    """Measures a synopsis, and where groups are if `worst_of` names their attribute.

    `searches`: restarts of each fit, which cost no privacy. `worst_of`: an attribute; the fit aims at the worst of its
    groups instead of the average. `group_share`: the part of `attribute_share` that then pays for the groups.
    """

    searches: Annotated[int, Field(ge=1, le=1000)] = 8
    worst_of: str | None = None
    group_share: Annotated[float, Field(gt=0, lt=1)] = 0.5

    @property
    def needed_attribute(self) -> str | None:
        """The attribute of the groups."""
        return self.worst_of

    def table_share(self, spec: Spec) -> float:
        """Return the part of the budget for the table of attributes, without what the groups cost."""
        share = super().table_share(spec)
        return share * (1 - self.group_share) if self.worst_of else share

    def split_groups(self, budget: Budget) -> tuple[Budget, float]:
        """Return the budget of the synopsis and the ε of the groups, from what the table of attributes leaves.

        The table has a (1 - g) of ε and the groups a g, for a = `attribute_share` and g = `group_share`. So the
        synopsis has (1 - a) of ε, with and without groups.
        """
        if self.worst_of is None:
            return budget, 0.0
        if not self.attribute_share:
            raise UserError(
                "worst_of: the counts of groups cost a part of `attribute_share`, which is 0; set it to 0.2 or so."
            )
        own = self.attribute_share * self.group_share
        for_groups = budget.epsilon * own / (1 - self.attribute_share + own)
        return replace(budget, epsilon=budget.epsilon - for_groups), for_groups

    def fit(self, view: Records, spec: Spec, budget: Budget, rng: Randomness) -> Release:
        """Measure one synopsis, and the groups if asked. Return the best mixture that many searches find for them."""
        for_synopsis, for_groups = self.split_groups(budget)
        if self.worst_of is not None:
            worst_group.group_size(self.worst_of, spec.domain, type(self).__name__)
        ledger = Ledger()
        synopsis = self.measure(view, spec, for_synopsis, rng.noise, ledger)
        transcript = [synopsis.released]
        if self.worst_of is None:
            fit, notes = synopsis.fit(spec, rng=rng.search, searches=self.searches)
        else:
            text = self.measure_groups(view, synopsis, spec, for_groups, rng.noise, ledger)
            groups = self.replay_groups(text, synopsis, spec, for_groups)
            fit, notes = worst_group.fit_worst(synopsis, groups, spec, rng=rng.search, searches=self.searches)
            transcript.append({"groups": text})
        spent = claim(ledger.events, budget, "linear")
        return Release(fit.mixture, ledger.events, spent, transcript, notes=notes)

    def measure_groups(
        self,
        view: Records,
        synopsis: Synopsis,
        spec: Spec,
        epsilon: float,
        source: NoiseSource,
        ledger: Ledger,
    ) -> str:
        """Measure the number of records by region × group, as text for the transcript."""
        assert self.worst_of is not None
        shape = self.group_shape(synopsis, spec, epsilon)
        region = worst_group.cut_regions(synopsis.lower, synopsis.upper, synopsis.weights(), shape[0])
        parts = self.locate(synopsis.released, spec, view.points)
        table = worst_group.measure(
            (region[parts], view.codes[self.worst_of].astype(np.int64)),
            shape,
            epsilon=epsilon,
            neighbours=self.relation(spec),
            source=source,
            ledger=ledger,
        )
        return base64.b64encode(table.astype("<f8").tobytes()).decode("ascii")

    def replay_groups(self, text: str, synopsis: Synopsis, spec: Spec, epsilon: float) -> Groups:
        """Compute where the groups are from the transcript and public values only."""
        assert self.worst_of is not None
        deviation = worst_group.noise_deviation(self.relation(spec), epsilon)
        regions = self.group_shape(synopsis, spec, epsilon)[0]
        return worst_group.read_groups(self.worst_of, spec.domain, synopsis, text, deviation, regions)

    def group_shape(self, synopsis: Synopsis, spec: Spec, epsilon: float) -> tuple[int, int]:
        """Return the number of regions and of groups, from public values and the number of parts."""
        assert self.worst_of is not None
        size = worst_group.group_size(self.worst_of, spec.domain, type(self).__name__)
        deviation = worst_group.noise_deviation(self.relation(spec), epsilon)
        return worst_group.count_regions(len(synopsis.counts), size, spec.domain.rows, deviation), size

    def measure(
        self, view: Records, spec: Spec, budget: Budget, source: NoiseSource, ledger: Ledger
    ) -> Synopsis:
        """Measure the synopsis alone, with all of this budget. The ledger gets every measurement."""
        partition, noisy = self.measure_counts(view, spec, budget, source, ledger)
        counts = base64.b64encode(noisy.astype("<f8").tobytes()).decode("ascii")
        return self.replay({**partition, "counts": counts}, spec, budget)

    def replay(self, released: dict[str, Any], spec: Spec, budget: Budget) -> Synopsis:
        """Compute the synopsis from the transcript and public values only."""
        neighbours = self.relation(spec)
        lower, upper = self.boxes(released, spec)
        return Synopsis(
            lower,
            upper,
            np.frombuffer(base64.b64decode(released["counts"]), dtype="<f8"),
            deviation=self.deviation(neighbours, budget),
            rows=spec.domain.rows,
            rows_are_exact=neighbours.size_is_public,
            records_per_unit=neighbours.records,
            released=released,
            shape=self.shape(released),
        )

    def measure_counts(
        self, view: Records, spec: Spec, budget: Budget, source: NoiseSource, ledger: Ledger
    ) -> tuple[dict[str, Any], np.ndarray]:
        """Return the partition of the public box in transcript form, and the noisy count of each part."""
        raise NotImplementedError

    def boxes(self, released: dict[str, Any], spec: Spec) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper corners of the parts of such a partition."""
        raise NotImplementedError

    def locate(self, released: dict[str, Any], spec: Spec, points: np.ndarray) -> np.ndarray:
        """Return the part of such a partition in which each point lies, (n,)."""
        raise NotImplementedError

    def shape(self, released: dict[str, Any]) -> TreeShape | None:
        """Return the tree whose leaves are the parts of such a partition; None if there is no tree."""
        return None

    def deviation(self, neighbours: Neighbours, budget: Budget) -> float:
        """Return the standard deviation of the noise in one count."""
        raise NotImplementedError

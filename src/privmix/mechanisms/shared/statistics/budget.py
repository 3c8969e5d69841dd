"""The public plan of the statistics: their events, what is left for the mechanism, and the claim of both together."""

import math
from dataclasses import dataclass, replace

from privmix.artefacts.statistics import StatisticRequest
from privmix.errors import UserError
from privmix.mechanisms.base import CentralMechanism, Mechanism, Spec
from privmix.mechanisms.shared.statistics.quantiles import ENDS, PARTS
from privmix.privacy.accounting import Budget, Claim, account, gaussian_epsilon, gaussian_mu
from privmix.privacy.ledger import STATISTIC, Event, Gaussian, Laplace, NoisyMaximum, Selection

CHOICES = ("quantile", "top")  # kinds whose measurement is an option, not a number


@dataclass(frozen=True)
class StatisticsPlan:
    """The events of each statistic, and the budget that is left for the mechanism."""

    events: tuple[tuple[Event, ...], ...]  # of each request; none for a public number
    left: Budget

    @property
    def all_events(self) -> list[Event]:
        """All events, in the order of the measurements."""
        return [event for own in self.events for event in own]

    def add_to(self, claim: Claim, budget: Budget) -> Claim:
        """Return the claim of a mechanism and of the statistics together (`accounting.compose_run`)."""
        multipliers = [each.noise_multiplier for each in self.all_events if isinstance(each, Gaussian)]
        pure = [event for event in self.all_events if not isinstance(event, Gaussian)]
        if multipliers:
            mu = math.hypot(gaussian_mu(claim.epsilon, claim.delta), *(1 / each for each in multipliers))
            claim = Claim(gaussian_epsilon(mu, budget.delta), budget.delta)
        return Claim(claim.epsilon + account(pure, 0.0, "linear").epsilon, claim.delta)


def measures_statistics(mechanism: Mechanism) -> bool:
    """Return whether the mechanism can spend a part of its budget on statistics."""
    return isinstance(mechanism, CentralMechanism) and mechanism.private


def no_statistics_note(mechanism: Mechanism) -> str:
    """Return the note on why a mechanism measures none."""
    if not mechanism.private:
        return (
            "The statistics of the configuration are not measured: this model has no budget to pay for them."
        )
    return (
        "The statistics of the configuration are not measured: a report is spent on its one answer, and shares of "
        "attributes are estimated from the reports."
    )


def make_plan(mechanism: Mechanism, spec: Spec, budget: Budget) -> StatisticsPlan | None:
    """Return the plan of the statistics; None if there are none, or the mechanism does not measure them."""
    if not spec.statistics or not measures_statistics(mechanism):
        return None
    public = mechanism.relation(spec).size_is_public
    costly = [not (public and is_record_number(request)) for request in spec.statistics]
    if not any(costly):
        return StatisticsPlan(((),) * len(costly), budget)
    share = spec.statistics_share / sum(costly)
    choices = sum(request.kind in CHOICES for request in spec.statistics)
    numbers = sum(costly) - choices
    gaussian = mechanism.only_gaussian(spec) and budget.delta > 0 and numbers > 0
    each = share * budget.epsilon
    spent = (choices if gaussian else choices + numbers) * each
    left = replace(budget, epsilon=budget.epsilon - spent) if spent else budget
    multiplier = None
    if gaussian:
        mu = gaussian_mu(left.epsilon, left.delta)
        multiplier = 1 / (math.sqrt(share) * mu)
        of_mechanism = gaussian_epsilon(math.sqrt(1 - numbers * share) * mu, left.delta)
        if not of_mechanism > 0:  # δ alone pays for so little
            raise UserError(
                f"statistics_share = {spec.statistics_share:g} leaves no epsilon for the mixture at epsilon = "
                f"{budget.epsilon:g} and delta = {budget.delta:g}; give a smaller statistics_share or delta, or a "
                "larger epsilon."
            )
        left = replace(left, epsilon=of_mechanism)
    events = tuple(
        _events(request, each, multiplier) if paid else ()
        for request, paid in zip(spec.statistics, costly, strict=True)
    )
    return StatisticsPlan(events, left)


def is_record_number(request: StatisticRequest) -> bool:
    """Return whether the statistic is the number of all records."""
    return request.kind == "count" and request.column is None


def _events(request: StatisticRequest, epsilon: float, multiplier: float | None) -> tuple[Event, ...]:
    label = STATISTIC + request.name
    if request.kind == "quantile":
        return tuple(Selection(label + end, part * epsilon) for end, part in zip(ENDS, PARTS, strict=True))
    if request.kind == "top":
        kind = Selection if request.by == "exponential" else NoisyMaximum
        return (kind(label, epsilon),)
    return (Laplace(label, epsilon) if multiplier is None else Gaussian(label, multiplier),)

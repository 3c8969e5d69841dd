"""The utility that a private model keeps (its knowledge), the epsilon that it needs, and the advice that follows.

Utility kept is the only scale of utility on the page: 100 % is the non-private model, 0 % is the public bounds alone.
"""

from dataclasses import dataclass
from typing import Literal

from privmix.report.format import count, listing, odds, percent, plain
from privmix.report.results import Estimate, Results, uniform_loglik
from privmix.report.run import Outcome, RunResults

GOOD_SHARE = 0.9
USEFUL_SHARE = 0.5
LARGE_EPSILON = 3.0  # from here on, the page shows how far odds may change

Verdict = Literal["good", "fair", "poor", "useless", "unclear", "unknown", "none"]
BADGES: dict[Verdict, str] = {
    "good": "use it",
    "fair": "usable",
    "poor": "usable from ε = …",
    "useless": "do not use",
    "unclear": "raise replicates",
    "unknown": "no comparison",
    "none": "no result",
}
MEANINGS: dict[Verdict, str] = {
    "good": f"keeps at least {percent(GOOD_SHARE)} of the utility",
    "fair": f"surely keeps {percent(USEFUL_SHARE)}",
    "poor": f"keeps less than {percent(USEFUL_SHARE)} at this ε; the badge names the smallest ε that surely keeps it",
    "useless": f"no tested ε surely keeps {percent(USEFUL_SHARE)}, or the mechanism breaks its privacy claim",
    "unclear": f"the 95\u00a0% interval is too wide to tell whether it keeps {percent(USEFUL_SHARE)}",
    "unknown": "no non-private model of the run is better than the public bounds alone, or the run has none",
    "none": "no central (or no local) mechanism has a result",
}


@dataclass(frozen=True)
class Advice:
    """A recommendation: a badge of a few words, and the next step in a short sentence."""

    badge: str
    next_step: str = ""


def utility_gain(run: RunResults, results: Results, dataset: str) -> float | None:
    """Return the nats per record between 0 % and 100 % utility; None if the non-private model gains nothing."""
    baseline = results.baseline(dataset)
    if baseline is None or dataset not in run.materials:
        return None
    gain = baseline.holdout_loglik - uniform_loglik(run.materials[dataset].info.domain)
    return gain if gain > 0 else None


def knowledge_share(run: RunResults, results: Results, dataset: str, gap: Estimate) -> Estimate | None:
    """Return the share that a model keeps of the non-private model's held-out gain over the uniform box.

    1 is as good as the non-private model, 0 as good as the public bounds alone. Unlike nats, the share means the
    same in any dimension. None if the non-private model gains nothing.
    """
    gain = utility_gain(run, results, dataset)
    if gain is None:
        return None
    low, high = (None if end is None else 1 + end / gain for end in (gap.low, gap.high))
    return Estimate(1 + gap.mean / gain, low, high, gap.count)


def utility(share: float) -> str:
    """Format a share of the utility in per cent, clipped to 0 % to 100 %."""
    return percent(min(max(share, 0.0), 1.0))


def utility_range(kept: Estimate) -> str | None:
    """Format the interval of the utility kept; None if there is none, or if its rounded ends are equal."""
    if kept.low is None or kept.high is None:
        return None
    low, high = utility(kept.low), utility(kept.high)
    return None if low == high else f"{low} to {high}"


def verdict(kept: Estimate | None) -> Verdict:
    """Classify a mechanism by the utility that it keeps; "unclear" if the replicates cannot decide."""
    if kept is None:
        return "unknown"
    if indecision(kept):
        return "unclear"
    return "useless" if kept.mean <= 0 else _class(kept.mean)


def indecision(kept: Estimate) -> str | None:
    """Explain that the interval spans a threshold; None if it does not."""
    if kept.low is None or kept.high is None or _class(kept.low) == _class(kept.high):
        return None
    return (
        f"Too uncertain to judge: the 95\u00a0% interval from {count(kept.count, 'replicate')} is "
        f"{utility(kept.low)} to {utility(kept.high)}. Set `replicates` higher in the configuration."
    )


def advise(run: RunResults, results: Results, best: Outcome, kept: Estimate | None) -> Advice:
    """Advise on the best mechanism of a trust model at the reference epsilon."""
    worth = verdict(kept)
    if kept is None:
        if results.baseline(best.dataset):
            return Advice(
                BADGES["unknown"], "Even the best non-private model is no better than the public bounds."
            )
        return Advice(BADGES["unknown"], "Add `non_private` to the mechanisms to measure the utility.")
    tried = certain_shares(run, results, best.dataset, best.trust)
    most = _keeping_sentence(tried, GOOD_SHARE, best.trust)
    if worth == "good":
        smaller = [e for e in _epsilons_keeping(tried, GOOD_SHARE) if e < best.epsilon]
        if smaller:
            return Advice(
                BADGES["good"],
                f"At ε\u00a0=\u00a0{plain(smaller[0])}, a {best.trust} mechanism still keeps at least "
                f"{percent(GOOD_SHARE)}.",
            )
        below = [e for e in tried if e < best.epsilon]
        if not below:
            return Advice(BADGES["good"])
        return Advice(
            BADGES["good"],
            f"At ε\u00a0=\u00a0{plain(below[-1])}, no {best.trust} mechanism surely keeps {percent(GOOD_SHARE)}.",
        )
    if worth == "fair" or (worth == "unclear" and _surely_useful(kept)):
        return Advice(BADGES["fair"], most)
    if worth == "unclear":
        return Advice(BADGES["unclear"], f"{indecision(kept)} {most}")
    larger = [e for e in _epsilons_keeping(tried, USEFUL_SHARE) if e > best.epsilon]
    if larger:
        return Advice(f"usable from ε = {plain(larger[0])}", most)
    return Advice("do not use", _alternative(run, results, best))


def _alternative(run: RunResults, results: Results, best: Outcome) -> str:
    """Advise what to do if no tested epsilon of a trust model is useful."""
    start = f"No {best.trust} mechanism surely keeps {percent(USEFUL_SHARE)} of the utility at any tested ε"
    if not best.randomises_records:
        return f"{start}. Collect more records."
    others = _epsilons_keeping(certain_shares(run, results, best.dataset, "central"), USEFUL_SHARE)
    if others:
        return f"{start}. Use a central mechanism or collect more records."
    return f"{start}, and no central mechanism does. Collect more records."


def thresholds(run: RunResults, results: Results, dataset: str, trust: str) -> str | None:
    """Describe which epsilons of the sweep surely keep the useful and the good share under a trust model."""
    tried = certain_shares(run, results, dataset, trust)
    if len(tried) < 2:
        return None
    one = len({o.mechanism for o in run.of(dataset) if o.private and o.trust == trust}) == 1
    who = f"The {trust} mechanism surely keeps" if one else f"The best {trust} mechanism surely keeps"
    half, most = (_epsilons_keeping(tried, share) for share in (USEFUL_SHARE, GOOD_SHARE))
    if not half:
        return f"No {trust} mechanism surely keeps {percent(USEFUL_SHARE)} of the utility at any tested ε."
    if half == most:
        return f"{who} {percent(GOOD_SHARE)} of the utility {_epsilon_range(tried, most)}."
    start = f"{who} {percent(USEFUL_SHARE)} of the utility {_epsilon_range(tried, half)}"
    if not most:
        return f"{start}. No {trust} mechanism surely keeps {percent(GOOD_SHARE)}."
    return f"{start}, and {percent(GOOD_SHARE)} {_epsilon_range(tried, most)}."


def _class(share: float) -> Verdict:
    return "good" if share >= GOOD_SHARE else "fair" if share >= USEFUL_SHARE else "poor"


def _surely_useful(kept: Estimate) -> bool:
    return kept.low is not None and kept.low >= USEFUL_SHARE


def certain_shares(run: RunResults, results: Results, dataset: str, trust: str) -> dict[float, float]:
    """Return the largest share of utility that a mechanism of a trust model surely keeps, by epsilon in order.

    The sure share is the lower end of the 95 % interval, or the share itself if there is no interval.
    """
    best: dict[float, float] = {}
    for outcome in run.of(dataset):
        gap = results.estimate(*outcome.key, "holdout_gap")
        if outcome.private and outcome.trust == trust and gap:
            kept = knowledge_share(run, results, dataset, gap)
            if kept is not None:
                sure = kept.mean if kept.low is None else kept.low
                best[outcome.epsilon] = max(best.get(outcome.epsilon, sure), sure)
    return dict(sorted(best.items()))


def _epsilons_keeping(tried: dict[float, float], share: float) -> list[float]:
    return [epsilon for epsilon, kept in tried.items() if kept >= share]


def _keeping_sentence(tried: dict[float, float], share: float, trust: str) -> str:
    """Describe the smallest epsilon that keeps the share."""
    reached = _epsilons_keeping(tried, share)
    if not reached:
        return f"No {trust} mechanism surely keeps {percent(share)} at any tested ε."
    epsilon = plain(reached[0])
    weak = f", but ε\u00a0=\u00a0{epsilon} protects little" if reached[0] >= LARGE_EPSILON else ""
    return f"At ε\u00a0=\u00a0{epsilon}, a {trust} mechanism keeps at least {percent(share)}{weak}."


def _epsilon_range(tried: dict[float, float], reached: list[float]) -> str:
    """Describe the epsilons, with the change of odds that a large one allows."""
    names = [plain(e) + (_odds_note(e) if e >= LARGE_EPSILON else "") for e in reached]
    if len(reached) == 1 or reached != list(tried)[-len(reached) :]:
        return f"at ε = {listing(names)}"
    return f"from ε = {names[0]}"


def _odds_note(epsilon: float) -> str:
    return f" (where an observer's odds can change {odds(epsilon)})"

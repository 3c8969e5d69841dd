"""How much of the non-private model's knowledge a private one keeps, at which epsilon, and whether it is of use."""

from typing import Literal

from privmix.report.format import count, listing, odds, percent, plain
from privmix.report.results import Estimate, Results, uniform_loglik
from privmix.report.run import Outcome, RunResults

GOOD_SHARE = 0.9
USEFUL_SHARE = 0.5
LARGE_EPSILON = 3.0  # from here on, what ε allows is told beside it

Verdict = Literal["good", "fair", "poor", "useless", "unclear", "unknown", "none"]
BADGES: dict[Verdict, str] = {
    "good": "close to non-private",
    "fair": "usable",
    "poor": "little use",
    "useless": "no use",
    "unclear": "unclear",
    "unknown": "no comparison",
    "none": "no result",
}
MEANINGS: dict[Verdict, str] = {
    "good": f"keeps at least {percent(GOOD_SHARE)} of the knowledge",
    "fair": f"keeps at least {percent(USEFUL_SHARE)}",
    "poor": f"keeps less than {percent(USEFUL_SHARE)}",
    "useless": "describes unseen records no better than the uniform box",
    "unclear": f"the interval of the knowledge kept spans {percent(USEFUL_SHARE)} or {percent(GOOD_SHARE)}",
    "unknown": "there is no non-private model that knows more than the uniform box",
    "none": "no mechanism of the trust model has a result",
}


def knowledge_share(run: RunResults, results: Results, dataset: str, gap: Estimate) -> Estimate | None:
    """Share of the non-private model's held-out gain over the uniform box that a model keeps.

    1 is as good as the non-private model, 0 as good as knowing the public box alone. Unlike a number of nats it
    means the same in any dimension. None where the non-private model itself knows nothing.
    """
    baseline = results.baseline(dataset)
    if baseline is None or dataset not in run.materials:
        return None
    gain = baseline.holdout_loglik - uniform_loglik(run.materials[dataset].info.domain)
    if gain <= 0:
        return None
    low, high = (None if end is None else 1 + end / gain for end in (gap.low, gap.high))
    return Estimate(1 + gap.mean / gain, low, high, gap.count)


def verdict(kept: Estimate | None) -> Verdict:
    """The class of a mechanism by the knowledge that it keeps, where the replicates can tell it."""
    if kept is None:
        return "unknown"
    if indecision(kept):
        return "unclear"
    return "useless" if kept.mean <= 0 else _class(kept.mean)


def indecision(kept: Estimate) -> str | None:
    """That the interval spans a threshold, where it does."""
    if kept.low is None or kept.high is None or _class(kept.low) == _class(kept.high):
        return None
    return (
        f"{count(kept.count, 'replicate')} cannot decide: between {percent(max(kept.low, 0.0))} and "
        f"{percent(min(kept.high, 1.0))} of the knowledge. Raise “replicates” in the configuration."
    )


def thresholds(run: RunResults, results: Results, dataset: str, trust: str) -> str | None:
    """At which epsilons of the sweep the best mechanism of a trust model surely keeps half, and nearly all."""
    tried = certain_shares(run, results, dataset, trust)
    if len(tried) < 2:
        return None
    one = len({o.mechanism for o in run.of(dataset) if o.private and o.trust == trust}) == 1
    start = f"The {trust} mechanism keeps" if one else f"{trust.capitalize()} mechanisms keep"
    whose = "of the non-private model's knowledge"
    half, most = (_epsilon_range(tried, share, explain=True) for share in (USEFUL_SHARE, GOOD_SHARE))
    if half != most:
        return f"{start} {percent(USEFUL_SHARE)} {whose} {half}, and {percent(GOOD_SHARE)} {most}."
    either = GOOD_SHARE if _epsilons_keeping(tried, GOOD_SHARE) else USEFUL_SHARE
    return f"{start} {percent(either)} {whose} {half}."


def smallest_epsilon(run: RunResults, results: Results, dataset: str, trust: str) -> str:
    """From which epsilon of the sweep nearly all knowledge is kept, in a few words; empty where nothing is known."""
    tried = certain_shares(run, results, dataset, trust)
    return f"{percent(GOOD_SHARE)} {_epsilon_range(tried, GOOD_SHARE)}" if tried else ""


def warning(run: RunResults, results: Results, best: Outcome, kept: Estimate) -> str | None:
    """That the best mechanism of its trust model is of little or no use, and where in the run one is."""
    worth = verdict(kept)
    if worth == "useless":
        start = (
            f"No use at ε = {plain(best.epsilon)}: {best.mechanism} describes unseen records no better than the "
            "public bounds alone."
        )
    elif worth == "poor":
        start = (
            f"Of little use at ε = {plain(best.epsilon)}: {best.mechanism} keeps {percent(kept.mean)} of what the "
            f"non-private model knows (below {percent(USEFUL_SHARE)})."
        )
    else:
        return None
    return f"{start} {_alternatives(run, results, best)}"


def _alternatives(run: RunResults, results: Results, best: Outcome) -> str:
    """At which epsilons mechanisms of this trust model, and of the other, are of use."""
    other = "central" if best.randomises_records else "local"
    own, others = (certain_shares(run, results, best.dataset, trust) for trust in (best.trust, other))
    if not _epsilons_keeping(own, USEFUL_SHARE) and not _epsilons_keeping(others, USEFUL_SHARE):
        return f"In this run no mechanism reaches {percent(USEFUL_SHARE)} at any ε."
    own_range, other_range = (_epsilon_range(tried, USEFUL_SHARE) for tried in (own, others))
    sentence = f"In this run a {best.trust} mechanism reaches {percent(USEFUL_SHARE)} {own_range}"
    return f"{sentence}; a {other} one does {other_range}." if others else f"{sentence}."


def _class(share: float) -> Verdict:
    return "good" if share >= GOOD_SHARE else "fair" if share >= USEFUL_SHARE else "poor"


def certain_shares(run: RunResults, results: Results, dataset: str, trust: str) -> dict[float, float]:
    """The largest share of knowledge that a mechanism of a trust model keeps for sure at each epsilon, in order.

    Sure is the lower end of the 95 % interval; of one replicate there is only its share.
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


def _epsilon_range(tried: dict[float, float], share: float, explain: bool = False) -> str:
    """At which of the epsilons the share is kept; `explain` adds what a large one allows."""
    reached = _epsilons_keeping(tried, share)
    if not reached:
        return "at no ε of this run" if explain else "at no ε"
    names = [plain(e) + (_odds_note(e) if explain and e >= LARGE_EPSILON else "") for e in reached]
    if len(reached) == 1 or reached != list(tried)[-len(reached) :]:
        return f"at ε = {listing(names)}"
    return f"from ε = {names[0]}"


def _odds_note(epsilon: float) -> str:
    return f" (where an observer's odds may change {odds(epsilon)})"

"""What attacks with shadow models and attribute inference have reached, as rows of text, and on whom they were run."""

from collections.abc import Sequence
from dataclasses import dataclass

from privmix.evaluate.limits import swap_ceiling
from privmix.report.frames import Scores
from privmix.report.outcomes import Outcome, Run
from privmix.report.phrases import listing, percent, plain, rate

OTHERS = {"rmia": "RMIA", "learned": "learned", "lira_offline": "LiRA offline"}


@dataclass(frozen=True)
class ShadowRow:
    """The attacks with shadow models on one mechanism at one epsilon; every number may be held against one ceiling."""

    mechanism: str
    epsilon: float
    lira: str  # AUC with its interval
    p99: str
    worst: str
    chance: str  # what the worst record stays below if nothing leaks
    beyond_chance: bool
    others: tuple[str, ...]  # the AUC of each of `OTHERS`
    rates: tuple[str, ...]  # LiRA's true-positive rate at each false-positive rate
    ceiling: str | None  # None where nothing limits the attack


@dataclass(frozen=True)
class AttributeRow:
    """How often a missing coordinate is guessed right."""

    mechanism: str
    epsilon: float
    members: str
    others: str
    baseline: str
    advantage: str


def shadow_rows(run: Run, scores: Scores, dataset: str, rates: Sequence[str]) -> list[ShadowRow]:
    """One row per mechanism and epsilon that was attacked with shadow models."""
    return [
        _shadow_row(scores, outcome, rates) for outcome in _measured(run, scores, dataset, "mia_lira_auc")
    ]


def _shadow_row(scores: Scores, outcome: Outcome, rates: Sequence[str]) -> ShadowRow:
    key = (outcome.dataset, outcome.mechanism, outcome.epsilon)

    def found(metric: str, form=rate) -> str:
        values = scores.values(*key, metric)
        return form(values[0]) if values else "–"

    worst, chance = (scores.values(*key, f"mia_lira_worst_record_{name}") for name in ("auc", "chance"))
    claim = (outcome.limiting_epsilon, outcome.claimed_delta, scores.relation(*key))
    return ShadowRow(
        mechanism=outcome.mechanism,
        epsilon=outcome.epsilon,
        lira=f"{found('mia_lira_auc')} [{found('mia_lira_auc_low')}, {found('mia_lira_auc_high')}]",
        others=tuple(found(f"mia_{name}_auc") for name in OTHERS),
        rates=tuple(found(f"mia_lira_tpr_at_fpr_{fpr}", percent) for fpr in rates),
        p99=found("mia_lira_p99_record_auc"),
        worst=found("mia_lira_worst_record_auc"),
        chance=found("mia_lira_worst_record_chance"),
        beyond_chance=bool(worst and chance) and worst[0] > chance[0],
        ceiling=rate(swap_ceiling(*claim)) if outcome.private else None,
    )


def attribute_rows(run: Run, scores: Scores, dataset: str) -> list[AttributeRow]:
    """One row per mechanism and epsilon of which attributes were inferred."""
    return [
        _attribute_row(scores, outcome) for outcome in _measured(run, scores, dataset, "attribute_advantage")
    ]


def _attribute_row(scores: Scores, outcome: Outcome) -> AttributeRow:
    key = (outcome.dataset, outcome.mechanism, outcome.epsilon)

    def found(metric: str) -> str:
        return percent(scores.values(*key, f"attribute_{metric}")[0])

    return AttributeRow(
        mechanism=outcome.mechanism,
        epsilon=outcome.epsilon,
        members=found("members_hit_rate"),
        others=found("others_hit_rate"),
        baseline=found("baseline_hit_rate"),
        advantage=f"{found('advantage')} [{found('advantage_low')}, {found('advantage_high')}]",
    )


def run_on(run: Run, scores: Scores, dataset: str) -> str:
    """On which models attacks with shadow models were run, and on which they were not."""
    done = _measured(run, scores, dataset, "mia_lira_auc")
    if not done:
        return (
            "Attacks with shadow models were not run here; evaluation.shadows says how many models they get."
        )
    whom: dict[str, list[str]] = {}
    for outcome in done:
        at = whom.setdefault(outcome.mechanism, [])
        at += [plain(outcome.epsilon)] if outcome.private else []
    words = listing([name + (f" at ε = {', '.join(at)}" if at else "") for name, at in whom.items()])
    made = [outcome for outcome in run.of(dataset) if outcome.failure is None]
    rest = "" if len(done) == len(made) else ", and on no other model"
    return f"Attacks with shadow models were run on {words}{rest}."


def _measured(run: Run, scores: Scores, dataset: str, metric: str) -> list[Outcome]:
    return [
        outcome
        for outcome in run.of(dataset)
        if scores.values(dataset, outcome.mechanism, outcome.epsilon, metric)
    ]

"""The section on releases without a guarantee: what attacks find in them, beside the recommended private mixtures.

Counts are of people for whom an attack succeeds and knowledge of the population does not. Of sensitive records the page
shows shares, and no counts, no chosen values and no texts that may contain them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from privmix.artefacts.naive import NaiveAttack, NaiveFile
from privmix.naive.registry import RELEASES
from privmix.report.audit_findings import findings
from privmix.report.format import (
    MINUS,
    compact,
    decimals,
    listing,
    percent,
    plain,
    plus_minus,
    rate,
)
from privmix.report.guarantee import auc_ceiling
from privmix.report.naive_findings import describe_headline, quoted, works
from privmix.report.results import Results
from privmix.report.run import NOT_MADE, Outcome, RunResults
from privmix.report.sections import PageSection
from privmix.report.sections.answer import answers
from privmix.report.worst_record import broken_claims

TITLES = {
    "pseudonymised": "Rows without names",
    "k_anonymous": "A k-anonymous table",
    "exact_statistics": "Exact counts",
    "rounded": "Rounded counts",
    "suppressed": "Counts without the small ones",
    "noisy_answers": "Noisy answers, without a limit on questions",
}
HIDDEN = "hidden because the records are sensitive"


@dataclass(frozen=True)
class ReleaseRow:
    """One release in plain words."""

    title: str
    description: str
    sentence: str  # what an attacker learns
    badge: str
    verdict: str  # class of the badge
    trust: str | None = None  # of a private mixture


@dataclass(frozen=True)
class AttackLine:
    """One attack on a release; without a number, the reason."""

    attack: str
    rate: str = ""
    baseline: str = ""
    gain: str = ""
    people: str = ""
    reason: str | None = None


@dataclass(frozen=True)
class ReleaseDetails:
    """All attacks on a release, and how anonymous its rows look."""

    release: str
    attacks: tuple[AttackLine, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class PrivateAttack:
    """Attacks on one private mixture. A dash is no result."""

    mechanism: str
    epsilon: float  # infinite without privacy
    guesses: str  # of a missing category: members minus others
    by_density: str  # AUC of membership
    by_shares: str
    limit: str  # of both AUC in expectation


@dataclass(frozen=True)
class DatasetReleases:
    """The releases of one dataset, the private mixtures last."""

    name: str
    title: str
    rows: tuple[ReleaseRow, ...]
    details: tuple[ReleaseDetails, ...]
    private: tuple[PrivateAttack, ...]  # the recommended mixtures and the non-private one at each ε
    known: str  # what an attacker may know and wants to learn
    nameless: bool  # whether the data do not identify persons
    shows_counts: bool


@dataclass(frozen=True)
class InsteadSection(PageSection):
    """The datasets with attacked releases, and those without roles."""

    datasets: tuple[DatasetReleases, ...]
    without_roles: str | None


def build(run: RunResults, results: Results) -> InsteadSection | None:
    """Build the section; None if no release without a guarantee is configured or made."""
    if not run.naive and not run.settings.naive_releases:
        return None
    with_roles = [name for name in run.settings.datasets if run.entries[name].roles is not None]
    others = [name for name in run.settings.datasets if name not in with_roles]
    return InsteadSection(
        tuple(_dataset(run, results, name) for name in with_roles),
        f"To attack such releases of {listing(others)} too, declare in the catalog entry which columns an attacker may "
        "know and which are secret: `roles: {quasi_identifiers: […], sensitive: […]}`."
        if others
        else None,
    )


def _dataset(run: RunResults, results: Results, name: str) -> DatasetReleases:
    roles = run.entries[name].roles
    assert roles is not None, "only datasets with roles have such releases"
    files = {file.release: file for file in run.naive if file.dataset == name}
    material = run.materials.get(name)
    shows = run.entries[name].visibility != "sensitive" if material is None else material.shows_counts
    order = list(RELEASES)
    asked = dict(sorted(run.settings.naive_releases.items(), key=lambda each: order.index(each[1].method)))
    attacks = sum(attack.measured for file in files.values() for attack in file.attacks)
    rows = [
        _release_row(files[release], shows, attacks)
        if release in files
        else _not_made(TITLES[chosen.method], "", NOT_MADE)
        for release, chosen in asked.items()
    ]
    return DatasetReleases(
        name=name,
        title=run.entries[name].title,
        rows=(*rows, *_private_rows(run, results, name)),
        details=tuple(
            _details(files[release], shows)
            for release in asked
            if release in files and not files[release].failure
        ),
        private=tuple(_private_attacks(run, results, name)),
        known=f"An attacker may know {listing(roles.quasi_identifiers)} (quasi-identifiers) and wants to learn "
        f"{listing([quoted(column) for column in roles.sensitive])} (sensitive).",
        nameless=run.entries[name].privacy.person_column is None,
        shows_counts=shows,
    )


def _not_made(title: str, description: str, reason: str) -> ReleaseRow:
    return ReleaseRow(title, description, reason, "not made", "none")


def _release_row(file: NaiveFile, shows: bool, attacks: int) -> ReleaseRow:
    title = TITLES[file.method]
    if file.failure:
        reason = file.failure if shows else f"This table could not be made; the reason is {HIDDEN}."
        return _not_made(title, file.description, reason)
    measured = [attack for attack in file.attacks if attack.measured]
    working = [attack for attack in measured if works(attack, attacks)]
    if not measured:
        reason = "No attack could be measured, which does not mean that the release is safe."
        return ReleaseRow(title, file.description, reason, "not measured", "unclear")
    tried = len({attack.kind for attack in measured})
    if not working:
        sentence = (
            "No better than knowing the population: no attack that ran learns more. There is no guarantee."
        )
        return ReleaseRow(title, file.description, sentence, "no attack works", "fair")
    number = len({attack.kind for attack in working})
    every = {1: "the", 2: "both"}.get(tried, f"all {tried}")
    of = f"{number} of {tried}" if number < tried else every
    badge = f"{of} attack{'s' if tried > 1 else ''} work{'s' if number == 1 else ''}"
    return ReleaseRow(title, file.description, describe_headline(file, working, shows), badge, "poor")


def _private_rows(run: RunResults, results: Results, dataset: str) -> list[ReleaseRow]:
    """Return the recommended mechanism of each trust model at the reference ε."""
    outcomes = {outcome.key: outcome for outcome in run.of(dataset)}
    return [
        _private_row(run, results, outcomes[dataset, answer.mechanism, answer.epsilon])
        for answer in answers(run, results)
        if answer.dataset == dataset and answer.mechanism
    ]


def _private_row(run: RunResults, results: Results, outcome: Outcome) -> ReleaseRow:
    broken = bool(findings(outcome) or broken_claims(run, results, outcome))
    limited = "limited by ε" if run.limits_average(outcome.dataset) else "ε limits one record"
    found = [_describe_guesses(results, outcome), _describe_membership(results, outcome)]
    return ReleaseRow(
        title=f"A private mixture, ε = {plain(outcome.epsilon)}",
        description=f"The model of {outcome.mechanism} and rows drawn from it. No row belongs to a person.",
        sentence=" ".join(filter(None, found)) or "No attack on this model was measured.",
        badge="seems to break its claim" if broken else limited,
        verdict="poor" if broken else "good",
        trust=outcome.trust,
    )


def _private_attacks(run: RunResults, results: Results, dataset: str) -> Iterator[PrivateAttack]:
    """Yield the attacks on the recommended mechanisms at each ε, and on the non-private mixture."""
    chosen = [each.mechanism for each in answers(run, results) if each.dataset == dataset]
    for outcome in run.of(dataset):
        if outcome.failure or (outcome.private and outcome.mechanism not in chosen):
            continue
        limited = outcome.private and run.limits_average(dataset)
        yield PrivateAttack(
            outcome.mechanism,
            outcome.epsilon,
            _measured(results, outcome, "category_advantage", signed),
            _measured(results, outcome, "mia_loss_auc", rate),
            _measured(results, outcome, "mia_shares_auc", rate),
            rate(auc_ceiling(results, outcome)) if limited else "–",
        )


def _measured(results: Results, outcome: Outcome, metric: str, form: Callable[[float], str]) -> str:
    """Format a metric of the first replicate that has it, with its 95 % interval."""
    value, low, high = (results.values(*outcome.key, f"{metric}{end}") for end in ("", "_low", "_high"))
    return form(value[0]) + (_interval(low[0], high[0], form) if low and high else "") if value else "–"


def _describe_guesses(results: Results, outcome: Outcome) -> str | None:
    """Compare guesses of a missing category of members and of others."""
    names = (
        "members_hit_rate",
        "others_hit_rate",
        "baseline_hit_rate",
        "advantage",
        "advantage_low",
        "advantage_high",
    )
    values = [results.values(*outcome.key, f"category_{name}") for name in names]
    if not all(values):
        return None
    members, others, known, advantage, low, high = (each[0] for each in values)
    said = (
        f"A missing category is guessed right for {percent(members)} of people in the data and {percent(others)} of "
        f"others (most common value: {percent(known)})"
    )
    if low > 0:
        more, *ends = (decimals(100 * value, 1) for value in (advantage, low, high))
        return f"{said}: {more} percentage points more for people in the data [{', '.join(ends)}]."
    return f"{said}; the difference is within chance."


def _describe_membership(results: Results, outcome: Outcome) -> str | None:
    auc = results.estimate(*outcome.key, "mia_loss_auc")
    return f"Guessing who is in the data: AUC {plus_minus(auc, rate)} (0.5 = guessing)." if auc else None


def _details(file: NaiveFile, shows: bool) -> ReleaseDetails:
    return ReleaseDetails(
        release=file.release,
        attacks=tuple(_line(attack, shows) for attack in file.attacks),
        remarks=tuple(_remarks(file, shows)),
    )


def _line(attack: NaiveAttack, shows: bool) -> AttackLine:
    # The names of these two contain a chosen value and a number of published shares.
    named = shows or attack.kind not in ("reconstruction", "membership")
    name = attack.attack if named else attack.kind
    if attack.rate is None or attack.baseline is None:
        reason = attack.reason if shows else f"The reason is {HIDDEN}."
        return AttackLine(name, reason=reason)
    area = attack.kind == "membership"
    form, difference = (rate, _signed_area) if area else (_share, signed)
    return AttackLine(
        attack=name,
        rate=form(attack.rate) + _interval(attack.low, attack.high, form),
        baseline=form(attack.baseline),
        gain=difference(attack.rate - attack.baseline)
        + _interval(attack.gain_low, attack.gain_high, difference),
        people=f"{attack.people:,}" if shows else "",
    )


def _share(value: float) -> str:
    return compact(percent(value))


def _interval(low: float | None, high: float | None, form: Callable[[float], str]) -> str:
    return "" if low is None or high is None else f" [{form(low)}, {form(high)}]"


def _remarks(file: NaiveFile, shows: bool) -> list[str]:
    said = []
    look = file.anonymity
    if look and shows:
        said.append(
            f"k = {look.k} (smallest group that looks alike), l = {look.distinct_l} (fewest sensitive values in a "
            f"group; by entropy {decimals(look.entropy_l, 1)}), t = {decimals(look.t, 2)} (largest distance of a group "
            "from the whole table)."
        )
    if look and look.uniqueness:
        grown = [
            f"{percent(each.share)}{f' ({each.rows:,})' if shows else ''} by {each.columns}"
            for each in look.uniqueness
        ]
        said.append(f"Unique rows: {'; '.join(grown)}.")
    if file.averaging:
        steps = "; ".join(f"{decimals(each.error, 1)} after {each.times:,}" for each in file.averaging)
        said.append(f"Error of the average of repeated answers: {steps}.")
    return said


def _signed_area(value: float) -> str:
    return f"{MINUS if value < 0 else '+'}{rate(abs(value))}"


def signed(share: float) -> str:
    """Format a difference of shares with its sign; near 0 without a sign, because "below 0.01 %" is true of both."""
    words = compact(percent(abs(share)))
    return (
        words if words[0] in "<0" and not words.startswith("0.") else f"{MINUS if share < 0 else '+'}{words}"
    )

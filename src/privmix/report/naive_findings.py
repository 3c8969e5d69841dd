"""The most telling attack on a release without a guarantee, in one plain sentence."""

import re
from collections.abc import Sequence
from statistics import NormalDist

from privmix.artefacts.naive import NaiveAttack, NaiveFile
from privmix.report.format import listing, percent, rate, three_digits

CERTAIN, GUESSED = " is certain", " is guessed"
FALSE_VERDICT = 0.025  # probability that any attack of a dataset is said to work if none does


def describe_headline(file: NaiveFile, working: Sequence[NaiveAttack], shows: bool) -> str:
    """Describe the most telling of the attacks that work, in one sentence."""
    attack = min(working, key=lambda each: (_rank(each), -_gain(each) * each.population))
    reached, known = percent(attack.rate or 0.0), percent(attack.baseline or 0.0)
    compared = f"{reached} of {attack.counted} (knowing only the population: {known})"
    secret = quoted(file.sensitive[0])
    start = ""
    if file.method == "k_anonymous":
        anonymous = f"{file.anonymity.k}-anonymous" if file.anonymity and shows else "k-anonymous"
        start = f"{anonymous}, but "
    if attack.kind == "linkage":
        facts = attack.attack.removeprefix("linkage ")
        rows = re.fullmatch(r"by (\d+) known rows?", facts)
        every = rows or facts == f"by {len(file.quasi_identifiers)} known facts"
        names = f" ({listing(file.quasi_identifiers)})" if every else ""
        some = f" with {rows[1]} rows or more" if rows and rows[1] != "1" else ""
        said = f"{_people(attack, shows)}{some} can be singled out {facts}{names}."
    elif attack.kind in ("homogeneity", "intersection") and attack.attack.endswith(CERTAIN):
        column = _column(attack)
        two = "with a second table, " if attack.kind == "intersection" else ""
        said = f"{two}{column} of {_people(attack, shows)} is disclosed all the same: "
        said += (
            "only one value is left for each." if two else "everyone who looks like them has the same value."
        )
    elif attack.kind == "homogeneity":
        said = f"{_column(attack)} is guessed right for {compared}."
    elif attack.kind == "differencing":
        said = (
            "publishing again after one person joins discloses that person's "
            f"{secret}: right for {compared}{_tried(attack, shows)}."
        )
    elif attack.kind == "averaging":
        said = _describe_averaging(file, working)
    elif attack.kind == "reconstruction":
        source, of = ("the published counts", "of") if "table" in attack.attack else ("many answers", "on")
        size = f" {of} {attack.population:,} {attack.counted}" if shows else ""
        said = f"{secret} can be computed from {source}{size}, right for {compared}."
    else:
        said = (
            "an attacker can tell who is in the table better than by guessing: "
            f"AUC {rate(attack.rate or 0.0)} (0.5 = guessing, 1 = certainty)."
        )
    sentence = start + said
    return sentence[0].upper() + sentence[1:]


def works(attack: NaiveAttack, attacks: int) -> bool:
    """Whether an attack is better than knowledge of the population, beyond the chance that one of several looks so.

    If none of the attacks is better, the probability that any of them is said to work is at most 2.5 % (Bonferroni).
    The end of the 95 % interval moves away from the gain like that of a normal distribution.
    """
    if attack.gain_low is None:
        return False
    normal = NormalDist()
    stretch = normal.inv_cdf(1 - FALSE_VERDICT / attacks) / normal.inv_cdf(1 - FALSE_VERDICT)
    return _gain(attack) > stretch * (_gain(attack) - attack.gain_low)


def _gain(attack: NaiveAttack) -> float:
    return (attack.rate or 0.0) - (attack.baseline or 0.0)


def _rank(attack: NaiveAttack) -> int:
    """Rank attacks by how plainly they show a disclosure."""
    if attack.attack.endswith(GUESSED):
        return 6
    return (
        "linkage", "homogeneity", "intersection", "differencing", "averaging", "reconstruction", "", "membership",
    ).index(attack.kind)  # fmt: skip


def _column(attack: NaiveAttack) -> str:
    """Return the sensitive column of an attack, such as problem of "homogeneity: problem is certain"."""
    return quoted(attack.attack.split(": ", 1)[1].removesuffix(CERTAIN).removesuffix(GUESSED))


def quoted(column: str) -> str:
    """Return the name of a column in quotation marks, without underscores."""
    return f"“{column.replace('_', ' ')}”"


def _people(attack: NaiveAttack, shows: bool) -> str:
    """Describe the people (or rows) for whom the attack succeeds and knowledge of the population does not."""
    if not shows:
        return f"{percent(_gain(attack))} of {attack.counted}"
    sampled = attack.people < attack.population
    number = f"about {three_digits(attack.disclosed)}" if sampled else f"{attack.disclosed:,}"
    return f"{number} of {attack.population:,} {attack.counted}"


def _tried(attack: NaiveAttack, shows: bool) -> str:
    return f", tried on {attack.people:,} {attack.counted}" if shows else ""


def _describe_averaging(file: NaiveFile, working: Sequence[NaiveAttack]) -> str:
    averages = [attack for attack in working if attack.kind == "averaging"]
    cached = [attack for attack in averages if "cache" in attack.attack]
    repeated = [attack for attack in averages if attack not in cached]
    how = "asking the same question" if repeated else "asking the same in other words"
    times = f" {file.averaging[-1].times} times" if file.averaging else " many times"
    first = (repeated or cached)[0]
    known = percent(first.baseline or 0.0)
    said = (
        f"{how}{times} gives the exact number in {percent(first.rate or 0.0)} of questions "
        f"(knowing only the population: {known})"
    )
    return f"{said}; a cache does not help." if repeated and cached else f"{said}."

"""Method cards and glossary: the page explains its own terms."""

import html
import math
import re

import pytest

from privmix.mechanisms.registry import METHODS
from privmix.report.format import belief
from privmix.report.methods import method_cards


@pytest.fixture(scope="module")
def glossary(rendered) -> str:
    return html.unescape(rendered.html[rendered.html.index('id="glossary"') :]).replace("\u00a0", " ")


def words_of(markup: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", markup.replace("<wbr>", "")))


def test_every_method_of_the_registry_has_a_card(glossary):
    cards = {card.method: card for card in method_cards()}
    assert set(cards) == set(METHODS)
    words = words_of(glossary)
    for card in cards.values():
        assert all((card.trust, card.does, card.guarantee, card.use)), card
        assert card.does.endswith("."), "a whole sentence"
        assert f"{card.method} {card.trust} {card.does} {card.guarantee} {card.use}" in words
    assert cards["non_private"].guarantee == "none"
    assert cards["tree_response"].trust == "local"


@pytest.mark.parametrize(("before", "epsilon"), [(0.5, 1.0), (0.01, 0.1), (0.1, 10.0), (0.5, 800.0)])
def test_belief_follows_the_rule_of_bayes(before, epsilon):
    odds = before / (1 - before) * math.exp(min(epsilon, 700.0))
    said = belief(before, epsilon).replace("\u00a0", " ")
    after = 100 * odds / (1 + odds)
    number = re.search(r"[\d.]+", said)[0]
    assert float(number) == pytest.approx(after, abs=0.5)


def test_the_page_explains_epsilon_in_numbers(rendered, glossary):
    assert "change by a factor of at most e^ε" in words_of(glossary)
    words = words_of(html.unescape(rendered.html)).replace("\u00a0", " ")
    words = words[words.index("The answer at ε = 1") : words.index("Frontier: utility")]
    assert " 1 2.7 % 23 % 73 % " in words
    assert " 10 99.6 % over 99.9 % over 99.9 % " in words
    assert "×1.11 at ε = 0.1, ×2.72 at ε = 1, ×22,026 at ε = 10" in words


TERMS = (
    "ε", "δ", "unit", "relation", "sensitivity", "composition", "central", "local", "gap", "utility kept", "ROC",
    "AUC", "TPR, FPR", "loss attack", "shadow models", "LiRA", "RMIA", "advantage", "isolated person", "audit", "game",
    "lower bound on ε", "replay", "replicate", "ledger", "post-processing", "measurement", "curator", "claim",
    "worst-record attack", "best non-private model", "surely, at least", "frequency oracle", "real sample",
    "Kolmogorov-Smirnov distance", "total variation", "NICV", "false alarm, missed detection", "right alarms",
)  # fmt: skip


def test_every_term_of_the_page_is_explained(glossary):
    explained = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", glossary, re.S))
    for term in TERMS:
        assert len(words_of(explained[term])) > 20, term

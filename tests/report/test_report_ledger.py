from making import make_domain

from privmix.artefacts.model import ModelFile
from privmix.artefacts.privacy_statement import PrivacyStatement
from privmix.report.ledger import exceeds_budget, group, split, theorem


def test_measurements_that_differ_only_in_an_index_share_a_line():
    rows = tuple(
        {"kind": "gaussian", "label": f"means, iteration {i}", "count": 2, "noise_multiplier": 3.0 + i}
        for i in range(4)
    )
    (line,) = group(rows)
    assert line.count == 8
    assert line.label == "means, iteration #"
    assert "3 to 6" in line.noise


def test_kinds_and_labels_have_separate_lines_in_the_order_of_the_ledger():
    lines = group(
        (
            {"kind": "laplace", "label": "weights", "count": 10, "epsilon": 0.01},
            {"kind": "gaussian", "label": "weights", "count": 1, "noise_multiplier": 5.0},
            {"kind": "randomized_response", "label": "a_race", "count": 1, "epsilon": 0.2 / 3},
            {"kind": "decomposition", "label": "tree", "count": 1, "epsilon": 0.5},
        )
    )
    assert [(line.kind, line.label, line.count) for line in lines] == [
        ("Laplace noise", "weights", 10),
        ("Gaussian noise", "weights", 1),
        ("Randomized response", "answer: race", 1),
        ("Shape of a private tree", "tree", 1),
    ]
    assert lines[0].noise == "scale = Δ₁ / 0.01"
    assert lines[2].noise == "ε = 0.0667"
    assert lines[3].noise == "ε = 0.5"


def model_of(rows, *, geographic=True, epsilon=1.0):
    """Return a model file with this ledger."""
    domain = make_domain(dimensions=2 if geographic else 3)
    return ModelFile(
        notice="", domain=domain, mechanism="m", method="laplace_input", parameters={},
        privacy=PrivacyStatement(ledger=rows, epsilon=epsilon, **COMMON), models=(),
    )  # fmt: skip


def test_the_split_of_a_budget_is_described_in_words():
    """For any method that randomises the place, and any number of reports per person."""

    def rows(place, count=1, **answers):
        said = [("a_" + name, epsilon) for name, epsilon in answers.items()]
        return (
            {"kind": place, "label": "record", "count": count, "epsilon": 0.5},
            *(
                {"kind": "randomized_response", "label": label, "count": count, "epsilon": epsilon}
                for label, epsilon in said
            ),
        )

    alike = rows("laplace", race=0.1, gender=0.1)
    assert split(model_of(alike)) == "Of ε = 1, 0.8 is for the place and 0.1 for each of “race” and “gender”."
    assert split(model_of(alike, geographic=False)).startswith("Of ε = 1, 0.8 is for the coordinates")
    unlike = rows("randomized_response", at_night=0.1, race=0.2)
    assert split(model_of(unlike)) == "Of ε = 1, 0.7 is for the place, 0.1 for “at night” and 0.2 for “race”."
    twice = rows("randomized_response", 2, at_night=0.1)
    assert split(model_of(twice)) == "Of ε = 1, 0.8 is for the place and 0.2 for “at night”."
    assert split(model_of(rows("laplace"))) is None


def test_an_unknown_kind_is_shown_with_its_numbers():
    (line,) = group(({"kind": "private_tree", "label": "splits", "count": 1, "depth": 12, "rule": "decay"},))
    assert line.kind == "private tree"
    assert line.noise == "depth = 12, rule = decay"


COMMON = {
    "budget_epsilon": 1.0, "budget_delta": 1e-6, "delta": 1e-6, "unit": "record", "relation": "replace_one",
    "trust": "central", "mode": "benchmark", "accountant": "exact",
}  # fmt: skip


def test_a_claim_above_its_budget_is_detected():
    assert not exceeds_budget(PrivacyStatement(epsilon=1.0, ledger=(), **COMMON))
    assert exceeds_budget(PrivacyStatement(epsilon=1.01, ledger=(), **COMMON))


def test_the_theorem_mentions_a_private_choice():
    choice = {"kind": "selection", "label": "number of Gaussians", "count": 1, "epsilon": 0.1}
    assert "choice" not in theorem(PrivacyStatement(epsilon=1.0, ledger=(), **COMMON))
    assert "private choice is added" in theorem(PrivacyStatement(epsilon=1.0, ledger=(choice,), **COMMON))


def test_measurements_on_a_sample_show_their_rate():
    (line,) = group(
        (
            {
                "kind": "sampled_gaussian",
                "label": "gradient",
                "count": 100,
                "noise_multiplier": 2.5,
                "rate": 0.04,
            },
        )
    )
    assert (line.kind, line.count) == ("Gaussian noise on a random sample", 100)
    assert "2.5" in line.noise
    assert "probability 0.04" in line.noise

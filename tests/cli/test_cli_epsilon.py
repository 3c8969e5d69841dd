"""`privmix epsilon` on the command line."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from clinic import ENTRY

from privmix.cli import main
from privmix.cli.arguments import build_parser
from privmix.cli.epsilon import read_wish, total_epsilon
from privmix.privacy.exact import ExactNoise

FOLDER = Path(__file__).parents[2] / "data" / "catalog"
MEAN = ("--mean", "--lower", "0", "--upper", "120", "--rows", "20000")


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    entry = ENTRY | {"expected": {"rows": 5000}}
    (tmp_path / "clinic.yaml").write_text(yaml.safe_dump(entry), encoding="utf-8")
    return str(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    main(["epsilon", *arguments])
    return " ".join(capsys.readouterr().out.split())


def failure(*arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["epsilon", *arguments])
    return str(caught.value)


def epsilon(text: str) -> float:
    return float(re.search(r"ε = ([\d.,]+) is enough", text)[1].replace(",", ""))


def test_a_mean_costs_its_range_times_the_tail(capsys):
    text = run(capsys, *MEAN, "--within", "0.5")
    exactly = 120 / 20_000 * math.log(20) / 0.5
    assert exactly <= epsilon(text) < 1.01 * exactly
    assert "ε = range 120 / 20,000 records x ln(1 / 0.05) / distance 0.5" in text
    assert "within 0.5 of the mean" in text


def test_ten_thousand_names_cost_an_epsilon_of_one_if_records_are_added_or_removed(capsys):
    names = ("--largest-of", "10000", "--within", "12.2")
    assert epsilon(run(capsys, *names, "--relation", "add_remove")) == 0.999
    text = run(capsys, *names)
    assert epsilon(text) == 2
    assert "Instead ε = 0.999 if neighbouring datasets differ by --relation add_remove" in text


@pytest.mark.parametrize(
    ("options", "factor"),
    [
        (("--unit", "person", "--max-records", "3"), 3),
        (("--share", "0.1"), 10),
        (("--probability", "0.999"), math.log(1000) / math.log(20)),
        (("--relation", "add_remove"), 1),
    ],
)
def test_a_count_costs_more_for_persons_for_a_share_and_for_more_certainty(capsys, options, factor):
    plain = epsilon(run(capsys, "--count", "--within", "10"))
    assert epsilon(run(capsys, "--count", "--within", "10", *options)) == pytest.approx(
        factor * plain, rel=1e-2
    )


@pytest.mark.parametrize(
    "options",
    [
        ("--count", "--within", "7.5"),
        (*MEAN, "--within", "0.5"),
        (*MEAN, "--within", "0.5", "--unit", "person", "--max-records", "2"),
        ("--count", "--within", "7.5", "--share", "0.37"),
    ],
)
def test_noise_of_a_release_at_the_answer_stays_within_the_wish(capsys, options):
    """At α = 1e-6, and far less ε would not be enough: the noise of half of it leaves the distance."""
    wish = read_wish(build_parser().parse_args(["epsilon", *options]))
    answer = epsilon(run(capsys, *options))
    assert answer == total_epsilon(wish)
    truth = 120.0 if "--mean" in options else 1000.0
    draws = 5000
    kept = wish.number.draw(truth, draws, answer * wish.share, ExactNoise())
    allowed = draws * 0.05 + 4.7534 * math.sqrt(draws * 0.05 * 0.95)
    assert (np.abs(kept - truth) > wish.within).sum() <= allowed
    halved = wish.number.draw(truth, draws, answer * wish.share / 2, ExactNoise())
    assert (np.abs(halved - truth) > wish.within).sum() > allowed


EXAMPLES = re.findall(
    r"^```console\n\$ privmix epsilon (.*)\n(.*)\n```",
    (FOLDER.parents[1] / "docs/epsilon.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


@pytest.mark.parametrize(("command", "output"), EXAMPLES)
def test_an_example_of_the_docs_prints_what_it_says(capsys, command, output):
    main(["epsilon", *command.split(), "--catalog", str(FOLDER)])
    assert capsys.readouterr().out.splitlines()[0] == output


def test_the_docs_have_examples():
    assert len(EXAMPLES) == 5


def test_the_catalog_gives_what_is_not_stated(capsys):
    stated = ("--mean", "--lower", "44.88", "--upper", "45.06", "--rows", "51920")
    entry = ("--dataset", "mpls_stops", "--column", "lat", "--catalog", str(FOLDER))
    known = run(capsys, "--mean", *entry, "--within", "0.001")
    assert epsilon(known) == epsilon(run(capsys, *stated, "--within", "0.001"))
    person = run(capsys, "--count", "--dataset", "movielens", "--within", "50", "--catalog", str(FOLDER))
    assert "all records of one person, at most" in person
    record = run(
        capsys, "--count", "--dataset", "movielens", "--within", "50", "--catalog", str(FOLDER), "--unit", "record"
    )  # fmt: skip
    assert epsilon(record) < epsilon(person)


def test_a_column_with_blanks_has_a_private_number_of_values(capsys, catalog):
    wish = ("--mean", "--dataset", "clinic", "--within", "1", "--catalog", catalog, "--column")
    text = run(capsys, *wish, "weight")
    assert "The number of records with a value is private" in text
    assert "Every record has a value of weight that is no blank and no atom." in text
    assert "days of the mean of seen" in run(capsys, *wish, "seen")
    assert "ε = range 170 / 5,000" not in text


def test_a_wish_that_needs_no_data_is_answered_without_an_epsilon(capsys):
    text = run(capsys, *MEAN, "--within", "60")
    assert text == "✓ Any ε is enough: without data, 60 is already within 60 of the mean of the records."
    assert "Any ε is enough" in run(capsys, "--count", "--rows", "100", "--within", "50")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*MEAN, "--within", "-1"), "--within -1 must be greater than 0, such as 0.5."),
        ((*MEAN, "--within", "nan"), "--within nan must be greater than 0"),
        ((*MEAN, "--within", "1", "--rows", "0"), "--rows 0 must be at least 1"),
        ((*MEAN, "--within", "1", "--upper", "-3"), "--lower 0 must be less than --upper -3."),
        ((*MEAN, "--within", "1", "--upper", "inf"), "--mean needs --upper, a finite public bound"),
        ((*MEAN, "--within", "1e-9"), "no ε up to 1,000,000 keeps the noise within 1e-09"),
        ((*MEAN, "--within", "1", "--probability", "95"), "--probability 95 must lie between 0 and 1"),
        ((*MEAN, "--within", "1", "--share", "0"), "--share 0 must be greater than 0 and at most 1"),
        ((*MEAN, "--within", "1", "--unit", "person"), "--unit person needs --max-records"),
        ((*MEAN, "--within", "1", "--unit", "person", "--max-records", "0"), "--max-records 0 must be at least 1"),
        ((*MEAN, "--within", "1", "--max-records", "2"), "--max-records is for --unit person"),
        ((*MEAN, "--within", "1", "--column", "age"), "--column needs --dataset"),
        (("--mean", "--within", "1"), "--mean needs --lower, a finite public bound of the column"),
        (("--mean", "--lower", "0", "--upper", "1", "--within", ".1"), "--mean needs --rows, the public number"),
        (("--count", "--lower", "0", "--within", "1"), "--lower is for --mean; leave it out"),
        (("--largest-of", "0", "--within", "1"), "--largest-of 0 must be at least 1"),
        (("--count", "--dataset", "movielen", "--within", "1"), "did you mean 'movielens'?"),
        (("--mean", "--dataset", "movielens", "--column", "ratin", "--within", "1"), "did you mean 'rating'?"),
        (("--mean", "--dataset", "nafld", "--column", "male", "--within", "1"), "is of type boolean and has no mean"),
    ],
)  # fmt: skip
def test_a_wish_that_makes_no_sense_is_refused_in_one_sentence(options, message):
    text = failure(*options, "--catalog", str(FOLDER))
    assert message in text
    assert text.startswith("privmix epsilon: ")
    assert "\n" not in text

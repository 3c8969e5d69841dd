"""The section on releases without a guarantee: its sentences equal the attacks, and it claims nothing beyond them."""

import html
import re
from dataclasses import asdict, replace
from types import SimpleNamespace

import made_up_run
import numpy as np
import pytest
import yaml
from made_up_run import CHECKINS, MadeUpData
from test_report_page import check

from privmix.artefacts.io import write_json
from privmix.artefacts.naive import Anonymity, AveragedAnswers, NaiveAttack, NaiveFile, Uniqueness
from privmix.attacks.finding import compare
from privmix.naive.base import NOTICE
from privmix.naive.registry import RELEASES as RELEASES_IN_ORDER
from privmix.report.naive_findings import works
from privmix.report.results import Results
from privmix.report.sections import instead

ROLES = {"quasi_identifiers": ["latitude", "longitude"], "sensitive": ["at_night"],
         "bins": {"latitude": 8, "longitude": 8}}  # fmt: skip
RELEASES = {"codes": {"method": "pseudonymised"}, "table": {"method": "k_anonymous", "k": 5}}


def attack(kind, name, rate, baseline, *, gain_low=None, people=7411, population=7411):
    gain_low = rate - baseline - 0.02 if gain_low is None else gain_low
    return NaiveAttack(
        kind=kind, attack=name, people=people, population=population, rate=rate, low=rate - 0.02, high=rate + 0.02,
        baseline=baseline, gain_low=gain_low, gain_high=rate - baseline + 0.03,
    )  # fmt: skip


LINKAGE = attack("linkage", "linkage by 2 known facts", 0.25, 1 / 7411)
CERTAIN = attack("homogeneity", "homogeneity: at_night is certain", 0.31, 0.11)
GUESSED = attack("homogeneity", "homogeneity: at_night is guessed", 0.62, 0.58)
INTERSECTION = attack("intersection", "intersection of 2 tables: at_night is certain", 0.4, 0.3, people=2000)
DIFFERENCING = attack("differencing", "differencing", 1.0, 0.45, people=200)
RECONSTRUCTION = attack(
    "reconstruction", "reconstruction of at_night = yes from the published table", 0.81, 0.66
)
AVERAGING = attack("averaging", "averaging: averaging of 256 answers", 0.7, 0.0, people=40, population=40)
REWORDED = attack(
    "averaging", "averaging with a cache, in other words: averaging of 256 answers", 0.75, 0.0, people=40, population=40
)  # fmt: skip
MEMBERSHIP = attack("membership", "membership from 1,497 published shares", 0.54, 0.5)
UNMEASURED = NaiveAttack(
    kind="linkage", attack="linkage by 8 known facts", reason="This attack needs at least 20 people; there are 17."
)  # fmt: skip


def release(name, method, attacks=(), dataset="checkins", **others):
    given = {
        "notice": NOTICE, "dataset": dataset, "release": name, "method": method, "parameters": {},
        "description": "What is published.", "rows": 7411, "people": 7411,
        "quasi_identifiers": ("latitude", "longitude"), "sensitive": ("at_night",), "attacks": list(attacks),
    }  # fmt: skip
    return NaiveFile(**(given | others))


CODES = release(
    "codes",
    "pseudonymised",
    [LINKAGE, UNMEASURED, CERTAIN],
    anonymity=Anonymity(
        k=1,
        distinct_l=1,
        entropy_l=1.0,
        t=0.47,
        uniqueness=[Uniqueness(columns="latitude", rows=613, share=0.083)],
    ),
)
TABLE = release(
    "table",
    "k_anonymous",
    [attack("linkage", "linkage by 2 known facts", 0.0, 0.0, gain_low=-0.1), CERTAIN, GUESSED],
    parameters={"k": 5},
    anonymity=Anonymity(k=5, distinct_l=1, entropy_l=1.0, t=0.44),
)


def words_of(markup: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<wbr>|<[^>]+>", " ", markup))).replace("\u00a0", " ")


def section_of(page: str) -> str:
    return page[page.index('<section id="instead"') : page.index('<section id="frontier"')]


def write_run(root, files, data=CHECKINS, releases=RELEASES, others=()):
    """Write a run whose first dataset has roles, and its attacked releases."""
    configuration = made_up_run.write_run(root, datasets=(data, *others), failing=())
    path = root / "catalog" / f"{data.name}.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "roles": ROLES}, sort_keys=False))
    for file in files:
        write_json(root / f"data/naive/{data.name}/{file.release}/attacks.json", file)
    return configuration | {"naive_releases": releases}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("instead")
    other = MadeUpData("plain", rows=400)
    configuration = write_run(root, [CODES, TABLE], others=(other,))
    run, results = made_up_run.load(root, configuration)
    return SimpleNamespace(run=run, results=results, page=made_up_run.render(root, configuration))


def rows_of(made, *files):
    """Return the rows of releases whose files are these."""
    asked = {
        file.release: made.run.settings.naive_releases["codes"].model_copy(update={"method": file.method})
        for file in files
    }
    settings = made.run.settings.model_copy(update={"naive_releases": asked})
    run = replace(made.run, naive=tuple(files), settings=settings)
    return [row for row in instead.build(run, made.results).datasets[0].rows if row.trust is None]


def sentence_of(made, method, *attacks, **others):
    [row] = rows_of(made, release("codes", method, attacks, **others))
    return row.sentence.replace("\u00a0", " ")


def test_the_section_follows_the_answer_and_has_a_row_per_release_and_trust_model(made):
    check(made.page)
    ids = re.findall(r'<section id="(\w+)"', made.page)
    assert ids[:3] == ["answer", "instead", "frontier"]
    [dataset] = instead.build(made.run, made.results).datasets
    assert [row.trust for row in dataset.rows] == [None, None, "central", "local"]
    words = words_of(section_of(made.page))
    assert "What if you published something else?" in words
    assert "The smaller ε, the less it learns." in words
    assert "1,852 of 7,411 people can be singled out by 2 known facts (latitude and longitude)." in words
    assert (
        "5-anonymous, but “at night” of 1,482 of 7,411 people is disclosed all the same: everyone who looks like "
        "them has the same value." in words
    )
    assert "both attacks work" in words
    assert "1 of 2 attacks works" in words


@pytest.mark.parametrize(
    ("method", "attacks", "expected"),
    [
        ("k_anonymous", [INTERSECTION], "with a second table, “at night” of about 741 of 7,411 people"),
        ("k_anonymous", [GUESSED], "“at night” is guessed right for 62 % of people (knowing only the population"),
        ("rounded", [DIFFERENCING], "right for 100 % of people (knowing only the population: 45 %), tried on 200"),
        ("rounded", [RECONSTRUCTION], "computed from the published counts of 7,411 people, right for 81 %"),
        ("rounded", [MEMBERSHIP], "AUC 0.540 (0.5 = guessing, 1 = certainty)."),
        ("rounded", [MEMBERSHIP, RECONSTRUCTION, DIFFERENCING], "Publishing again after one person joins discloses"),
        ("noisy_answers", [AVERAGING], "Asking the same question many times gives the exact number in 70 %"),
    ],
)  # fmt: skip
def test_each_kind_of_attack_has_its_sentence(made, method, attacks, expected):
    assert expected in sentence_of(made, method, *attacks)


def test_a_cache_is_named_as_no_help_only_if_it_was_defeated(made):
    steps = [AveragedAnswers(times=1, error=5.7), AveragedAnswers(times=256, error=0.43)]
    both = sentence_of(made, "noisy_answers", AVERAGING, REWORDED, averaging=steps)
    assert (
        both
        == "Asking the same question 256 times gives the exact number in 70 % of questions (knowing only the "
        "population: 0 %); a cache does not help."
    )
    held = REWORDED.model_copy(update={"gain_low": -0.1})
    assert "cache" not in sentence_of(made, "noisy_answers", AVERAGING, held, averaging=steps)
    open_cache = sentence_of(
        made, "noisy_answers", AVERAGING.model_copy(update={"gain_low": 0.0}), REWORDED, averaging=steps
    )
    assert (
        open_cache == "Asking the same in other words 256 times gives the exact number in 75 % of questions "
        "(knowing only the population: 0 %)."
    )


def test_rows_of_a_person_single_out_only_people_with_as_many_rows(made):
    one = attack("linkage", "linkage by 1 known row", 0.26, 0.0001, people=1000, population=1000)
    four = attack("linkage", "linkage by 4 known rows", 0.99, 0.0001, people=50, population=50)
    said = sentence_of(made, "pseudonymised", one, four)
    assert said == "260 of 1,000 people can be singled out by 1 known row (latitude and longitude)."
    said = sentence_of(made, "pseudonymised", four)
    assert said.startswith("49 of 50 people with 4 rows or more can be singled out by 4 known rows (")


def test_an_attack_that_works_by_chance_alone_is_one_of_many(made):
    """Of 40 attacks without effect, one has a 95 % interval above the population on average."""
    lucky = attack("reconstruction", "reconstruction from many", 0.52, 0.5, gain_low=0.002)
    [alone] = rows_of(made, release("codes", "rounded", [lucky]))
    assert alone.badge == "the attack works"
    [row] = rows_of(
        made, release("codes", "rounded", [lucky, *[MEMBERSHIP.model_copy(update={"gain_low": -0.1})] * 39])
    )
    assert row.badge == "no attack works"
    [row] = rows_of(made, release("codes", "rounded", [RECONSTRUCTION, *[MEMBERSHIP] * 39]))
    assert row.badge == "both attacks work"


def test_verdicts_are_false_as_rarely_as_the_page_says():
    rng = np.random.default_rng(0)
    worlds, attacks, people = 400, 30, 500
    false = 0
    for _ in range(worlds):
        found = [compare("a", hits, 0.3) for hits in rng.random((attacks, people)) < 0.3]
        false += any(works(NaiveAttack(kind="homogeneity", **asdict(each)), attacks) for each in found)
    assert false / worlds < 0.05  # at most 2.5 % are expected; more than 5 % have a probability below 1e-3


def test_releases_have_the_order_of_the_registry(made):
    files = [release(name, name, [LINKAGE]) for name in reversed(RELEASES_IN_ORDER)]
    assert [row.title for row in rows_of(made, *files)] == [
        instead.TITLES[name] for name in RELEASES_IN_ORDER
    ]


@pytest.mark.parametrize("gain_low", [-0.2, 0.0])
def test_an_attack_that_does_not_beat_the_population_is_no_disclosure(made, gain_low):
    weak = [each.model_copy(update={"gain_low": gain_low}) for each in (LINKAGE, CERTAIN, MEMBERSHIP)]
    [row] = rows_of(made, release("codes", "pseudonymised", weak))
    assert row.sentence.startswith("No better than knowing the population")
    assert "There is no guarantee." in row.sentence
    assert (row.badge, row.verdict) == ("no attack works", "fair")
    assert not re.search(r"\d", row.sentence)


def test_without_a_measured_attack_nothing_is_claimed(made):
    [row] = rows_of(made, release("codes", "pseudonymised", [UNMEASURED]))
    assert row.badge == "not measured"
    assert "which does not mean that the release is safe" in row.sentence


def test_a_failed_release_and_a_missing_file_have_a_reason(made):
    failure = "k_anonymous: k = 9000 is more than the 7411 rows of the table; choose a smaller k."
    [row] = rows_of(made, release("table", "k_anonymous", failure=failure))
    assert (row.badge, row.sentence) == ("not made", failure)
    [dataset] = instead.build(replace(made.run, naive=(CODES,)), made.results).datasets
    assert dataset.rows[1].badge == "not made"
    assert dataset.rows[1].sentence.startswith("Not made: the job did not run")
    assert [each.release for each in dataset.details] == ["codes"]


def test_details_list_every_attack_and_the_reason_of_those_not_measured(made):
    words = words_of(section_of(made.page))
    assert (
        "linkage by 8 known facts Not measured. This attack needs at least 20 people; there are 17." in words
    )
    assert "homogeneity: at_night is guessed 62 % [60 %, 64 %] 58 % +4 % [+2 %, +7 %] 7,411" in words
    assert "k = 5 (smallest group that looks alike), l = 1" in words
    assert "Unique rows: 8.3 % (613) by latitude." in words


def test_the_recommended_mixtures_stand_beside_the_non_private_one_at_each_epsilon(made):
    [dataset] = instead.build(made.run, made.results).datasets
    chosen = {
        row.trust: row.description.split("model of ")[1].split(" ")[0] for row in dataset.rows if row.trust
    }
    epsilons = made.run.settings.epsilons
    found = {(line.mechanism, line.epsilon): line for line in dataset.private}
    assert {key for key in found if np.isfinite(key[1])} == {
        (name, each) for name in chosen.values() for each in epsilons
    }
    private = found[chosen["central"], 1.0]
    assert private.by_shares == "0.504 [0.484, 0.534]"
    assert private.limit == "–"  # persons have several records, and ε protects one
    [bare] = [line for line in dataset.private if np.isinf(line.epsilon)]
    assert (bare.by_shares, bare.limit) == ("0.661 [0.641, 0.691]", "–")
    assert "0.661 [0.641, 0.691]" in words_of(section_of(made.page))


def test_private_mixtures_come_last_with_measured_numbers(made):
    central = instead.build(made.run, made.results).datasets[0].rows[2]
    assert central.title == "A private mixture, ε = 1"
    assert "dp_em_exact" in central.description
    said = central.sentence.replace("\u00a0", " ")
    assert (
        "72 % of people in the data and 71 % of others (most common value: 69 %); the difference is within chance."
        in said
    )
    assert "AUC 0.50" in said
    assert central.badge == "ε limits one record"  # people of this dataset have several records


def test_a_private_mixture_that_exposes_its_people_says_so(made):
    frame = made.results.frame.copy()
    frame.loc[frame["metric"] == "category_advantage_low", "value"] = 0.002
    found = instead.build(made.run, Results(frame)).datasets[0].rows[2].sentence.replace("\u00a0", " ")
    assert (
        "of others (most common value: 69 %): 1.0 percentage points more for people in the data [0.2, 5.0]."
        in found
    )
    assert "within chance" not in found
    frame = frame[~frame["metric"].str.startswith(("category_", "mia_"))]
    bare = instead.build(made.run, Results(frame)).datasets[0].rows[2]
    assert bare.sentence == "No attack on this model was measured."


def test_a_dataset_without_roles_gets_one_sentence(made):
    words = words_of(section_of(made.page))
    assert words.count("To attack such releases of plain too, declare") == 1
    alone = replace(made.run, naive=(), entries={**made.run.entries, "checkins": made.run.entries["plain"]})
    found = instead.build(alone, made.results)
    assert found.datasets == ()
    assert "releases of checkins and plain" in found.without_roles


def test_the_glossary_explains_the_attacks(made, rendered):
    terms = ("quasi-identifier", "k-anonymous", "linkage", "homogeneity", "intersection", "differencing", "averaging",
             "reconstruction", "membership")  # fmt: skip
    for term in terms:
        assert len(re.search(f"<dt>{term}</dt><dd>(.*?)</dd>", made.page)[1]) > 20
        assert f"<dt>{term}</dt>" not in rendered.html


def test_a_run_without_such_releases_has_no_section(rendered):
    run, results = made_up_run.load(rendered.root, rendered.configuration)
    assert instead.build(run, results) is None


def test_of_sensitive_records_the_section_shows_shares_alone(tmp_path):
    secret = replace(CHECKINS, name="secret", visibility="sensitive", isolated=False)
    failure = "k_anonymous: k = 9000 is more than the 7411 rows of the table; choose a smaller k."
    asked = {
        **RELEASES,
        "counts": {"method": "exact_statistics"},
        "failed": {"method": "k_anonymous", "k": 9000},
    }
    files = [
        CODES.model_copy(update={"dataset": "secret"}),
        TABLE.model_copy(update={"dataset": "secret"}),
        release("counts", "exact_statistics", [DIFFERENCING, RECONSTRUCTION, MEMBERSHIP], "secret"),
        release("failed", "k_anonymous", dataset="secret", failure=failure, parameters={"k": 9000}),
    ]  # fmt: skip
    page = made_up_run.render(tmp_path, write_run(tmp_path, files, secret, asked))
    words = words_of(section_of(page))
    assert "25 % of people can be singled out by 2 known facts" in words
    assert "K-anonymous, but “at night” of 20 % of people is disclosed" in words
    assert "Counts are hidden because the records are sensitive." in words
    assert "the reason is hidden because the records are sensitive" in words
    for count in ("7,411", "7411", "1,852", "1,482", "613", "1,497", "200 people", "there are 17", "2,000"):
        assert count not in words
    assert "= yes" not in words, "the value that was attacked is chosen by the records"
    assert "k = 5 (" not in words


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "0 %"),
        (0.00003, "<0.01 %"),
        (-0.00003, "<0.01 %"),
        (0.004, "+0.4 %"),
        (-0.3, "−30 %"),
        (0.0005, "+0.05 %"),
    ],
)
def test_differences_have_a_sign_unless_they_are_near_zero(share, words):
    assert instead.signed(share).replace("\u00a0", " ") == words

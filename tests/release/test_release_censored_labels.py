"""Censored labels of a release: drawn by the estimator, refused where nothing limits them, and never forged."""

import json

import numpy as np
import pytest
from test_release_forgeries import rebuilt, seal
from walks_park import ENTRY

from privmix import PrivateGaussianMixture
from privmix.errors import UserError
from privmix.release import verify
from privmix.release.folder import CARD, read_release

WANTED = {"censored_labels": {"walks": {"dog": 0.002}}}


@pytest.fixture
def labelled(park):
    park.write(config=WANTED)
    return park.release("grid", 8.0, "--synthetic", "200")


def test_a_release_states_the_limit_and_draws_labels(labelled, capsys):
    verdict = verify.inspect(labelled)
    labels = verdict.model.labels
    assert labels is not None
    assert 0 < labels.limits[0].limit <= 0.002
    assert any("censored labels" in check for check in verdict.checks)
    assert "## Censored labels" in (labelled / CARD).read_text()
    model = PrivateGaussianMixture.from_release(labelled)
    rows = np.full((20_000, 2), model.means_[0])
    drawn, own = model.sample_labels(rows), model.predict(rows[:1])[0]
    expected = labels.kept + (1 - labels.kept) * model.weights_[own]
    assert (drawn == own).mean() == pytest.approx(expected, abs=0.03)
    assert (model.sample_labels(rows) != drawn).any(), "every label is drawn for itself"


def test_a_model_without_labels_says_so(released):
    model = PrivateGaussianMixture.from_release(released["grid"])
    with pytest.raises(UserError, match="no censored labels"):
        model.sample_labels(np.zeros((2, 2)))


def keep_more(content):
    content["labels"]["kept"] = min(content["labels"]["kept"] + 0.2, 1.0)


def promise_less(content):
    content["labels"]["limits"][0]["limit"] /= 2


def ask_less(content):
    content["labels"]["limits"][0]["at_most"] = 0.0005
    content["labels"]["limits"][0]["limit"] = 0.0005


def other_attribute(content):
    content["labels"]["limits"][0]["attribute"] = "cat"


def no_limits(content):
    content["labels"]["limits"] = []


def twice(content):
    content["labels"]["limits"] *= 2


@pytest.mark.parametrize("edit", [keep_more, promise_less, ask_less, other_attribute, no_limits, twice])
def test_forged_labels_are_refused(labelled, edit):
    rebuilt(edit)(labelled)
    seal(labelled)
    with pytest.raises(UserError):
        verify.verify(labelled)


def test_labels_without_a_measured_table_are_refused_before_anything_is_spent(park, capsys):
    park.write(config=WANTED)
    sentence = park.refused(
        capsys, "release", "walks", "--mechanism", "moments", "--epsilon", "1", "--out", "out"
    )
    assert "cannot release censored labels" in sentence
    assert not (park.folder / "out").exists()
    assert not park.lines, "nothing was spent"


def test_an_unknown_attribute_is_refused(park, capsys):
    park.write(config={"censored_labels": {"walks": {"dogs": 0.05}}})
    sentence = park.refused(
        capsys, "release", "walks", "--mechanism", "grid", "--epsilon", "1", "--out", "out"
    )
    assert "censored_labels.walks names 'dogs'" in sentence
    assert "did you mean 'dog'?" in sentence


def test_the_model_file_is_as_before_without_labels(released):
    assert json.loads((released["grid"] / "model.json").read_text())["labels"] is None
    assert read_release(released["grid"]).labels is None


def test_columns_with_atoms_have_no_censored_labels(park, capsys):
    columns = [dict(each) for each in ENTRY["columns"]]
    columns[1]["atoms"] = [0]
    park.write(config=WANTED, entry={"columns": columns})
    sentence = park.refused(
        capsys, "release", "walks", "--mechanism", "grid", "--epsilon", "1", "--out", "out"
    )
    assert "records of walks may lack 'east'" in sentence
    assert not park.lines, "nothing was spent"

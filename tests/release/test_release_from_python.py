"""A release folder as an estimator."""

import json

import numpy as np
import pytest

from privmix import PrivateGaussianMixture
from privmix.errors import UserError
from privmix.release import signing


def test_a_release_loads_as_an_estimator_with_its_statement(released):
    folder = released["moments"]
    model = PrivateGaussianMixture.from_release(folder)
    said = json.loads((folder / "model.json").read_text("utf-8"))
    np.testing.assert_array_equal(model.means_, said["original"]["means"])
    assert model.privacy_.epsilon == said["privacy"]["epsilon"]
    assert model.mechanism_ == said["method"]
    assert model.feature_names_in_.tolist() == [axis["name"] for axis in said["domain"]["axes"]]
    rows, _ = model.sample(200)
    lower, upper = zip(*model.bounds, strict=True)
    assert ((rows >= lower) & (rows <= upper)).all()


def test_a_release_of_another_signer_is_refused(released):
    folder = released["grid"]
    signer = signing.check_signature(folder)
    assert PrivateGaussianMixture.from_release(folder, signer=signer).mechanism_ == "noisy_grid"
    with pytest.raises(UserError, match="not by"):
        PrivateGaussianMixture.from_release(folder, signer="ab" * 32)
    with pytest.raises(UserError, match="verify=True"):
        PrivateGaussianMixture.from_release(folder, signer=signer, verify=False)


def test_a_spoiled_release_is_refused_unless_checks_are_off(copied):
    path = copied / "model.json"
    path.write_text(path.read_text("utf-8").replace('"weights": [', '"weights": [ ', 1), "utf-8")
    with pytest.raises(UserError):
        PrivateGaussianMixture.from_release(copied)
    assert PrivateGaussianMixture.from_release(copied, verify=False).weights_.sum() == pytest.approx(1.0)


def test_a_folder_that_is_no_release_is_explained(tmp_path):
    with pytest.raises(UserError):
        PrivateGaussianMixture.from_release(tmp_path)

"""Scores are the same on every machine, although the key of the pseudonyms differs."""

from dataclasses import replace

import numpy as np
from making import clean_data, clusters

from privmix.artefacts.clean import number_persons
from privmix.pipeline.scores import score_model


def test_persons_are_numbered_in_order_of_appearance():
    assert number_persons(np.array([9, 4, 9, 7, 4], dtype=np.uint64)).tolist() == [0, 1, 0, 2, 1]


def test_scores_do_not_depend_on_the_key(made_model):
    rng = np.random.default_rng(4)
    owners = np.sort(rng.integers(0, 600, 2000))
    clean = clean_data(clusters(2000), persons=owners, train=owners % 2 == 0)
    model = made_model(clean)
    scored = []
    for _ in range(12):
        keyed = rng.permutation(2**40 + np.arange(600)).astype(np.uint64)
        found = score_model(model, replace(clean, person=keyed[owners]), (0.5,), np.random.default_rng(1))
        scored.append([(value.metric, value.value.hex()) for value in found.values])
    assert len(scored[0]) > 5
    assert all(other == scored[0] for other in scored)

"""The scores of censored labels: what they tell about each attribute, and what a probe predicts from them."""

from privmix.artefacts.clean import CleanData
from privmix.artefacts.fitted_model import CensoredLabels
from privmix.evaluate import censored_labels
from privmix.mechanisms.shared.censored_labels import label_probabilities
from privmix.mixture.model import Mixture


def score_labels(labels: CensoredLabels, mixture: Mixture, clean: CleanData) -> dict[str, float]:
    """Score censored labels: what held-out labels tell about each attribute, and what a probe predicts from them.

    Compare the probe with one of the components themselves (`labels_probe_uncensored`), and with a guess.
    """
    domain, found = clean.info.domain, {"labels_kept": labels.kept}
    shares = mixture.responsibilities(clean.points, domain.absent(clean.codes, len(clean.points)))
    censored = label_probabilities(shares, mixture.weights, labels.kept)
    for each in labels.limits:
        values = next(len(own.values) for own in domain.attributes if own.name == each.attribute)
        train, test, own_train, own_test = (
            censored_labels.joint_shares(chances[side], clean.codes[each.attribute][side], values)
            for chances in (censored, shares)
            for side in (clean.train, ~clean.train)
        )
        measured = {
            "limit": each.limit,
            "information": censored_labels.information(test),
            "probe": censored_labels.probe_recall(train, test),
            "probe_uncensored": censored_labels.probe_recall(own_train, own_test),
            "guess": censored_labels.guess_recall(train, test),
        }
        found |= {f"labels_{name}[{each.attribute}]": value for name, value in measured.items()}
    return found

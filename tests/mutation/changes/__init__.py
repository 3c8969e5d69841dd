"""The defects that the tests must catch: small changes of the sources, each with the tests that should catch it.

There is one module per part of the package. Every occurrence of a snippet in its file is replaced. Keep snippets short
and distinctive; `mutate` raises an error if it cannot find one.
"""

from changes import (
    accounting,
    artefacts,
    central_mechanisms,
    estimator,
    evaluate,
    groups,
    local_mechanisms,
    mixture,
    naive,
    privacy,
    reference_mechanisms,
    release,
    report,
    stages,
    statistics,
    tree_responses,
)

CHANGES = (
    *privacy.CHANGES,
    *accounting.CHANGES,
    *central_mechanisms.CHANGES,
    *reference_mechanisms.CHANGES,
    *local_mechanisms.CHANGES,
    *tree_responses.CHANGES,
    *mixture.CHANGES,
    *estimator.CHANGES,
    *evaluate.CHANGES,
    *groups.CHANGES,
    *naive.CHANGES,
    *release.CHANGES,
    *report.CHANGES,
    *stages.CHANGES,
    *artefacts.CHANGES,
    *statistics.CHANGES,
)

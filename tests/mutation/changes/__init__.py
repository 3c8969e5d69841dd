"""The defects that the tests must notice: small changes of the sources, each with the tests that should catch it.

They stand by what of the package they change. A snippet is replaced wherever it stands in its file. Snippets are kept
short and distinctive; `mutate` says so when one is no longer found.
"""

from changes import (
    accounting,
    central_mechanisms,
    estimator,
    evaluate,
    local_mechanisms,
    mixture,
    privacy,
    reference_mechanisms,
    release,
    report,
    stages,
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
    *release.CHANGES,
    *report.CHANGES,
    *stages.CHANGES,
)

"""The report of a run: its sections in order, rendered into one self-contained HTML file."""

from collections.abc import Mapping

from privmix.report.audit_findings import failing_mechanisms
from privmix.report.figures import series
from privmix.report.format import TRUST
from privmix.report.guarantee import protected_noun
from privmix.report.results import Results
from privmix.report.run import RunResults
from privmix.report.sections import (
    PageSection,
    answer,
    attack,
    audit,
    data,
    frontier,
    glossary,
    instead,
    ledger,
    models,
    nearby,
    proportions,
    published,
    usefulness,
)
from privmix.report.sections import results as results_section
from privmix.report.sections import run as run_section
from privmix.report.sections.results import Attachment
from privmix.report.templating import embed, environment, libraries


def build(
    run: RunResults, results: Results, csv: Attachment, parquet: Attachment
) -> Mapping[str, PageSection]:
    """Build the sections in the order of the page, by the name of their template; some runs do not need all."""
    sections: dict[str, PageSection | None] = {
        "answer": answer.build(run, results),
        "instead": instead.build(run, results),
        "frontier": frontier.build(run, results),
        "models": models.build(run, results),
        "usefulness": usefulness.build(run, results),
        "attack": attack.build(run, results),
        "audit": audit.build(run),
        "nearby": nearby.build(run, results),
        "ledger": ledger.build(run),
        "proportions": proportions.build(run),
        "published": published.build(run),
        "results": results_section.build(run, results, csv, parquet),
        "data": data.build(run),
        "run": run_section.build(run),
        "glossary": glossary.build(run),
    }
    return {name: section for name, section in sections.items() if section is not None}


def render(
    run: RunResults, results: Results, csv: Attachment, parquet: Attachment, catalog: str | None = None
) -> str:
    """Render the page as HTML; `csv` and `parquet` hold the results, `catalog` is the relative URL of its page."""
    sections = build(run, results, csv, parquet)
    looks = series(run.private, run.trust)
    return (
        environment()
        .get_template("page.html")
        .render(
            run=run,
            sections=sections,
            looks=looks,
            compared={name: look for name, look in looks.items() if look.comparable},
            reference=run.reference_epsilon,
            epsilons=run.epsilons,
            trusts=[trust for trust in TRUST if trust in {look.trust for look in looks.values()}],
            failed=sum(outcome.failure is not None for outcome in run.outcomes),
            failing=failing_mechanisms(run),
            protected=protected_noun(run),
            catalog=catalog,
            libraries=libraries(),
            data=embed(
                {key: part for section in sections.values() for key, part in section.script_data.items()}
            ),
        )
    )

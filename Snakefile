include: "workflow/Snakefile"


# Snakemake takes its default target from the top-level file alone.
rule all:
    input:
        html="reports/summary.html",
        catalog="reports/catalog.html",

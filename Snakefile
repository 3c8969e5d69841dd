include: "workflow/Snakefile"


# Snakemake takes its default target only from the top-level file.
rule all:
    input:
        html="reports/summary.html",
        catalog="reports/catalog.html",

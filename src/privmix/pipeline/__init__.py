"""The pipeline: the plan of a run, its jobs and their resources, and the stages that Snakemake runs."""

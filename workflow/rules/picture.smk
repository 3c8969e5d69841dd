# Take the picture of the README from a run with the default configuration:  snakemake --cores all docs/report.png
# `update` keeps the old picture until the new one exists.
rule picture:
    input:
        html="reports/summary.html",
    output:
        png=update("docs/report.png"),
    log:
        "logs/picture.log",
    benchmark:
        "logs/benchmarks/picture.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=memory,
        runtime=minutes(),
    params:
        code=stage_code("picture"),
        browser=browser,
    shell:
        "python -m privmix.pipeline.stages.picture --browser {params.browser:q} --html {input.html:q} "
        "--output {output.png:q} 2>&1 | tee {log:q}"

rule report:
    input:
        scores=all_scores(),
        audits=all_audits(),
        naive=all_naive(),
    output:
        html="reports/summary.html",
        csv="reports/results.csv",
        parquet="reports/results.parquet",
        figures=directory("reports/figures"),
    log:
        "logs/report.log",
    benchmark:
        "logs/benchmarks/report.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=memory,
        runtime=minutes(),
    params:
        code=stage_code("report"),
        configuration=compact_json(config),
    shell:
        "python -m privmix.pipeline.stages.report --configuration {params.configuration:q} "
        "--html {output.html:q} --csv {output.csv:q} --parquet {output.parquet:q} "
        "--figures {output.figures:q} 2>&1 | tee {log:q}"

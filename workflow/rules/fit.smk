rule fit:
    input:
        view=seen_by_fit,
    output:
        model=sweep.MODEL,
    log:
        "logs/fit/{dataset}/{mechanism}/eps-{epsilon}.log",
    benchmark:
        sweep.BENCHMARKS["fit"]
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=memory,
        runtime=minutes(lambda wildcards: SWEEP.settings.replicates),
    params:
        code=method_code("fit"),
        job=job_arguments,
        strict=["--strict"] if SWEEP.settings.audit.strict else [],
        view=lambda wildcards: "--private" if is_local(wildcards) else "--clean",
    shell:
        "python -m privmix.stages.fit {params.job:q} {params.strict:q} "
        "{params.view} {input.view:q} --output {output.model:q} 2>&1 | tee {log:q}"

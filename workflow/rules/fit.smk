rule fit:
    input:
        view=seen_by_fit,
    output:
        model=plan.MODEL,
    log:
        "logs/fit/{dataset}/{mechanism}/eps-{epsilon}.log",
    benchmark:
        plan.BENCHMARKS["fit"]
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=memory,
        runtime=minutes(lambda wildcards: PLAN.settings.replicates),
    params:
        code=method_code("fit"),
        job=job_arguments,
        strict=["--strict"] if PLAN.settings.audit.strict else [],
        view=lambda wildcards: "--private" if is_local(wildcards) else "--clean",
    shell:
        "python -m privmix.pipeline.stages.fit {params.job:q} {params.strict:q} "
        "{params.view} {input.view:q} --output {output.model:q} 2>&1 | tee {log:q}"

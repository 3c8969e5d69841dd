rule privatise:
    input:
        clean=plan.CLEAN,
    output:
        private=plan.PRIVATE,
    log:
        "logs/privatise/{dataset}/{mechanism}/eps-{epsilon}.log",
    benchmark:
        plan.BENCHMARKS["privatise"]
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=memory,
        runtime=minutes(),
    params:
        code=method_code("privatise"),
        job=job_arguments,
        strict=["--strict"] if PLAN.settings.audit.strict else [],
    shell:
        "python -m privmix.pipeline.stages.privatise {params.job:q} {params.strict:q} "
        "--clean {input.clean:q} --output {output.private:q} 2>&1 | tee {log:q}"

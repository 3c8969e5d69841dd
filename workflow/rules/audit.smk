rule audit:
    output:
        audit=plan.AUDIT,
    log:
        "logs/audit/{mechanism}/eps-{epsilon}.log",
    benchmark:
        plan.BENCHMARKS["audit"]
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=memory,
        runtime=minutes(),
    params:
        code=method_code("audit"),
        job=audit_arguments,
    shell:
        "python -m privmix.pipeline.stages.audit {params.job:q} "
        "--output {output.audit:q} 2>&1 | tee {log:q}"

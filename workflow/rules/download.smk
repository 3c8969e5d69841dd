rule download:
    input:
        entry=entry,
        local=local_source,
    output:
        raw=plan.RAW,
    log:
        "logs/download/{dataset}.log",
    benchmark:
        plan.BENCHMARKS["download"]
    conda:
        "../../environment.yml"
    threads: 1
    params:
        code=download_code,
        source=entry_digest("source"),
        override=override,
    shell:
        "python -m privmix.pipeline.stages.download --entry {input.entry:q} "
        "{params.override:q} --output {output.raw:q} 2>&1 | tee {log:q}"

rule naive:
    input:
        entry=entry,
        raw=plan.RAW,
    output:
        table=plan.NAIVE_TABLE,
        attacks=plan.NAIVE,
    log:
        "logs/naive/{dataset}/{release}.log",
    benchmark:
        plan.BENCHMARKS["naive"]
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=memory,
        runtime=minutes(),
    params:
        code=stage_code("naive"),
        entry=entry_digest(*ENTRY_SECTIONS, "roles"),
        release=naive_arguments,
    shell:
        "python -m privmix.pipeline.stages.naive --entry {input.entry:q} --raw {input.raw:q} "
        "{params.release:q} --table {output.table:q} --attacks {output.attacks:q} 2>&1 | tee {log:q}"

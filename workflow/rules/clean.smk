rule clean:
    input:
        entry=entry,
        raw=plan.RAW,
    output:
        clean=plan.CLEAN,
    log:
        "logs/clean/{dataset}.log",
    benchmark:
        plan.BENCHMARKS["clean"]
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=memory,
        runtime=minutes(),
    params:
        code=stage_code("clean"),
        entry=entry_digest(*ENTRY_SECTIONS),
        seed=PLAN.settings.master_seed,
        overridden=lambda wildcards: "--overridden" if override(wildcards) else "",
    shell:
        "python -m privmix.pipeline.stages.clean --entry {input.entry:q} --raw {input.raw:q} "
        "--key data/.pseudonym.key --master-seed {params.seed} {params.overridden} "
        "--output {output.clean:q} 2>&1 | tee {log:q}"

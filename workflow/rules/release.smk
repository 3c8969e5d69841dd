# A release is made once. Newer code or a newer clean file does not make it again, because that would cost its ε again.
# Its folder is write-protected, so Snakemake refuses to replace it. The rule has no benchmark: time and memory depend on
# the records and on secret noise. A release keeps no time more precise than the day. A release that fails after its
# rehearsal has spent its budget, so no profile may try it again.
rule release:
    input:
        entry=entry,
        raw=ancient(plan.RAW),
        clean=ancient(plan.CLEAN),
    output:
        folder=protected(directory(plan.RELEASE)),
    log:
        "logs/release/{dataset}/{mechanism}/eps-{epsilon}.log",
    retries: 0
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=memory,
        runtime=minutes(lambda wildcards: 3),
    params:
        job=release_arguments,
    shell:
        "python -m privmix.pipeline.stages.release {params.job:q} --entry {input.entry:q} "
        "--raw {input.raw:q} --clean {input.clean:q} --output {output.folder:q} 2>&1 | tee {log:q}"

# A release is made once. Neither newer code nor a newer clean file makes it anew, which would cost its ε again; and
# its folder is write-protected, so that Snakemake refuses to replace it. It has no benchmark: how long it took and how
# much memory depends on the records and on noise that nobody may redraw, and nothing finer than a day is kept of it.
rule release:
    input:
        entry=entry,
        clean=ancient(plan.CLEAN),
    output:
        folder=protected(directory(plan.RELEASE)),
    log:
        "logs/release/{dataset}/{mechanism}/eps-{epsilon}.log",
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
        "--clean {input.clean:q} --output {output.folder:q} 2>&1 | tee {log:q}"

rule privatise:
    input:
        clean=sweep.CLEAN,
    output:
        private=sweep.PRIVATE,
    log:
        "logs/privatise/{dataset}/{mechanism}/eps-{epsilon}.log",
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=memory,
        runtime=minutes(),
    params:
        code=method_code("privatise"),
        job=job_arguments,
    shell:
        "python -m privmix.stages.privatise {params.job:q} "
        "--clean {input.clean:q} --output {output.private:q} 2>&1 | tee {log:q}"

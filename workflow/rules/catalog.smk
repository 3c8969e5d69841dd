rule catalog:
    input:
        entries=catalog_entries,
        clean=expand(sweep.CLEAN, dataset=SWEEP.settings.datasets),
    output:
        html="reports/catalog.html",
        package="data/datapackage.json",
    log:
        "logs/catalog.log",
    benchmark:
        "logs/benchmarks/catalog.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=memory,
        runtime=minutes(),
    params:
        code=lambda wildcards: code_version("privmix.stages.catalog"),
        entries=catalog_digest,
        configuration=catalog_configuration,
    shell:
        "python -m privmix.stages.catalog --configuration {params.configuration:q} "
        "--html {output.html:q} --package {output.package:q} 2>&1 | tee {log:q}"

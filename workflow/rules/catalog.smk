rule catalog:
    input:
        entries=catalog_entries,
        clean=expand(plan.CLEAN, dataset=PLAN.settings.datasets),
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
        code=lambda wildcards: code_version("privmix.pipeline.stages.catalog"),
        entries=digest_of_catalog,
        configuration=catalog_configuration,
    shell:
        "python -m privmix.pipeline.stages.catalog --configuration {params.configuration:q} "
        "--html {output.html:q} --package {output.package:q} 2>&1 | tee {log:q}"

rule evaluate:
    input:
        clean=plan.CLEAN,
        private=reports_of,
        model=plan.MODEL,
    output:
        scores=plan.SCORES,
    log:
        "logs/evaluate/{dataset}/{mechanism}/eps-{epsilon}.log",
    benchmark:
        plan.BENCHMARKS["evaluate"]
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=memory,
        runtime=minutes(attacks),
    params:
        code=method_code("evaluate"),
        job=job_arguments,
        rates=PLAN.settings.evaluation.false_positive_rates,
        runs=PLAN.settings.evaluation.worst_record_runs,
        records=PLAN.settings.evaluation.worst_record_records,
        shadows=shadow_arguments,
        person=lambda wildcards: PLAN.entries[wildcards.dataset].isolated[:1],
        outcome=outcome_arguments,
        shares=lambda wildcards: (
            "--shares" if PLAN.entries[wildcards.dataset].roles else ""
        ),
        groups=group_arguments,
        reports=lambda wildcards: "--private" if is_local(wildcards) else "",
    shell:
        "python -m privmix.pipeline.stages.evaluate {params.job:q} --clean {input.clean:q} "
        "--model {input.model:q} {params.reports} {input.private:q} "
        "--false-positive-rates {params.rates} --worst-record-runs {params.runs} "
        "--worst-record-records {params.records} {params.shadows:q} {params.outcome:q} {params.groups:q} "
        "{params.shares} "
        "--worst-person {params.person:q} --output {output.scores:q} 2>&1 | tee {log:q}"

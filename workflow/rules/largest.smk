"""
Search the largest batch that fits on one device, for studies with `per_device_batch_size: max`.

INPUTS   results/weights/, results/environments/, results/parity/
OUTPUTS  results/batch_sizes/{search}.json (the largest batch, why it is no larger, and every try)
         results/batch_sizes/{search}.failed.json (why a search failed; it is no output, and a later call repeats it)
         results/batch_sizes/tries/ (the tries of unfinished searches, and the folders of tries that failed)

The job has one device, and does one try after another, each in a process of its own. The plan takes the numbers from
the records when a further pass of the call plans anew (invocation/deciding.py).
"""


rule search_batch_size:
    input:
        weights=ancient(largest.weights),
        environment=ancient(largest.environment),
        verdict=ancient(largest.verdict),
    output:
        record="results/batch_sizes/{search}.json",
    log:
        "results/logs/search_batch_size/{search}.log",
    priority: 900000
    retries: 1
    resources:
        **cluster.resources(largest.size, cluster.growth("search_batch_size")),
        measurement=100,
    params:
        code=largest.code,
        request=largest.request,
        studies=largest.studies,
        launch=largest.launch,
    shell:
        r"""
        {HOWMANYGPUS}/search_batch_size.py \
            --request {params.request:q} \
            --studies {params.studies:q} \
            --launch {params.launch:q} \
            --code {params.code:q} \
            --weights {input.weights:q} \
            --environment {input.environment:q} \
            --verdict {input.verdict:q} \
            --time-limit-min {resources.limit_min} \
            --record {output.record:q} \
            >{log:q} 2>&1
        """

"""Answers to what Snakemake's rules ask: inputs, parameters and resources, by wildcards."""

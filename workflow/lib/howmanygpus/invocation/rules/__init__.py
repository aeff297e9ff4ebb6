"""Functions that compute the inputs, parameters and resources of Snakemake's rules from wildcards."""

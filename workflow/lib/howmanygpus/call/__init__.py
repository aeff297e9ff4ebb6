"""Messages to the user of one call of Snakemake: why jobs wait, why they failed, and what to do at the end."""

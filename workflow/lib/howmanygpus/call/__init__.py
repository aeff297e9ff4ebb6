"""What the user of one call of Snakemake is told: why jobs wait, why they failed, and what to do at the end."""

"""Facts that the workflow takes from the host: environment variables, and the kernel's limits."""

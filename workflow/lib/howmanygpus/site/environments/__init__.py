"""Build environments from pins: virtual environments in the cache, Horovod's wheels, and existing interpreters."""

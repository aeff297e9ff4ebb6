"""Pins become environments: virtual environments in the cache, Horovod's wheels, interpreters that exist already."""

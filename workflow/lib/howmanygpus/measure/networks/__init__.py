"""The workflow's networks, one file for each. A file's name is the network's name in a study."""

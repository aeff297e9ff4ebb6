"""The gate of users' own models: what one device does with a single file, and checks of a folder."""

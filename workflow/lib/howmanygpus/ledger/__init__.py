"""The jobs that used devices: a record of each, completed with the times of its scheduler."""

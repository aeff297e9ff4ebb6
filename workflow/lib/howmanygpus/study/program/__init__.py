"""Plans the runs of a user's own training program: `program` in a study."""

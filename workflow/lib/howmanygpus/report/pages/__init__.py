"""Pages and tables of the report that are not of one study."""

"""Rows of tables: how they are named, and how those of several studies are joined."""

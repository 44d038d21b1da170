"""Experiments that anyone can repeat with one command; each writes a table, its numbers and a page."""

"""Handwritten digits, learned by clients that keep their images to themselves."""

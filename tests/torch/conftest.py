"""Scripts that tests start as processes hold no tests, and do their work when they are imported."""

collect_ignore = ["accelerate_resumes.py", "lightning_resumes.py", "stops_at.py"]

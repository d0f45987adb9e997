"""Static programs: recorded, compiled, run."""

"""How samples lie in files: slot text, columns of text, CSV, Parquet."""

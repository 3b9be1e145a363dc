"""Files: list them, open them, read what is in them."""

"""Source operators, which begin a stream."""

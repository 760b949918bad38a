"""A first spec from a stranger's file: what its columns are, what identifies, dates and scores a row. Guesses, told as such. No Spark."""

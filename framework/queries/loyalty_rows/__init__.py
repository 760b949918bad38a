"""The code that query types about the loyalty of objects share."""

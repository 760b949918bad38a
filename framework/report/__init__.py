"""A job's results as one page that needs nothing else: ``page`` makes the HTML of ``figures`` about queries, runs and the plan."""

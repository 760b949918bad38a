"""Write a job's results as one self-contained page: ``page`` makes the HTML of ``figures`` about queries, runs and the plan."""

"""The tables of the pipeline: departures as they come, without cancelled flights, and figures of them by route."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()

COLUMNS = "date string, carrier string, flight int, origin string, dest string, departed timestamp, air_time double"


@dp.table
def departures() -> DataFrame:
    """Return the departures in the CSV files of $FILES. A streaming table: each run appends the rows of new files."""
    files = spark.readStream.schema(COLUMNS).option("header", True).csv(os.environ["FILES"])
    return files.where("departed is not null")


@dp.materialized_view
def routes() -> DataFrame:
    """Return the flights and the mean time in the air of each route. A materialized view: each run computes all of it again."""
    return (
        spark.read.table("departures")
        .groupBy("origin", "dest")
        .agg({"flight": "count", "air_time": "avg"})
        .toDF("origin", "dest", "flights", "minutes")
    )

"""A session of Spark that starts fast and needs no network."""

from pyspark.sql import SparkSession

# Each query runs once: compiling it, the JVM's second compiler and its parallel collector cost more than they save. A plan that is
# not compiled also divides before it leaves groups out, so that a division by zero fails.
OPTIONS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
}


def session():
    spark = SparkSession.builder.master("local[1]").config(map=OPTIONS).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark

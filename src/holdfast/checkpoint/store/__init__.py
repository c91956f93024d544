"""Spark's state store files, as of Spark 4.3, read without Spark. What has another format is left to Spark's own reader."""

"""The formats of an export: the same rows as Parquet, Avro or JSON, so that every format is as exact as the others."""

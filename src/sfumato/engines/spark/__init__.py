"""The Spark engine: tables on a cluster. Nothing else imports pyspark."""

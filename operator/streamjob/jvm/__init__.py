"""The JVM: its errors and signals, a JVM without a Spark session, the class archive for a faster start."""

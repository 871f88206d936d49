"""The JVM beneath: what its errors say, one without a Spark session, the archive of classes that lets it start sooner."""

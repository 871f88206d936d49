"""The executors: how many the controller asks for (`numbers`), and how many Spark has (`pool`)."""

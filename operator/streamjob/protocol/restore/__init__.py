"""What a job starts from: which part of a checkpoint each task gets, and what is refused."""

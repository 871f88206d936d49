"""Tools of the people who work on StreamJob. Nothing in here is shipped."""

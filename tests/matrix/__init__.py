"""Every source with every end and every trigger: queries of windows, and a plain oracle of what is in them.

    PYTHONPATH=operator:. python -m tests.matrix                    # lists the cases
    PYTHONPATH=operator:. python -m tests.matrix kafka-kill-default --seed 3 --keep /tmp/matrix

A case is one job with a query for each source of a group. `app.py` is its script, plain PySpark: each window
of its output has the ids of the rows in it. So the output itself says which rows were read. Whatever ended
the job, when everything is over

- no row is in two windows, or twice in one, and each is in the window of its time;
- what was read of each partition of a source is a prefix of it: no row is left out between two others;
- everything is read where the end says so: the script's own end, or an endless script that is given the time.

`sources.py` fills the sources, `ends.py` ends the job.
"""

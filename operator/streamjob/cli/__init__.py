"""The command `kubectl streamjob`: what a job is doing, and what it is asked to do.

It runs on the user's machine with the user's rights. It talks to the cluster through the user's own kubectl
(`kubectl.py`, the only module that starts it), and it stores nothing. It reads resources as the API server
has them, as plain JSON, so that it starts at once and tolerates controllers of other versions.

    commands/    one module for each command: reads, asks a view, prints
    ui/          the page, and the server behind it
    access/      reads a job, and what belongs to it
    local/       the same for a job that runs without Kubernetes
    diagnosis/   pure: from facts to findings
    views/       pure: from resources to what a person wants to know
    printing/    terminal and plain text, times and amounts
"""

"""`kubectl streamjob ui`: a page on the user's machine, with the rights of the user's kubectl.

command      what the user types: starts the server, prints and opens the address
server       HTTP: who may ask, which answer; the built page as files
security     pure: hosts, origins, tokens, the headers of every answer
jobs         every job in memory, and who is told of changes
history      pure: figures over time, for the charts
requests     pure: what the buttons change
sources      the protocol behind which cluster and laptop differ: all jobs, and what is read of one
cluster      jobs of a cluster: a watch; index, Events, pods, permissions
local        jobs without Kubernetes: their folders and processes
plain        pure: what both sources tell of one job, as the page gets it
page/        built from ui/ by `make ui`
"""

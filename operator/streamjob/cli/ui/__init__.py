"""`kubectl streamjob ui`: a page on the user's machine, with the rights of the user's kubectl.

command      what the user types: starts the server, prints and opens the address
server       HTTP: who may ask, which answer; the built page as files
access       pure: hosts, origins, tokens, the headers of every answer
jobs         every StreamJob as the API server has it, and who is told of changes
history      pure: figures over time, for the charts
details      what is read for one job only: index, Events, pods, permissions
requests     pure: what the buttons change
page/        built from ui/ by `make ui`
"""

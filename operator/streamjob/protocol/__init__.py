"""The protocol: what StreamJob promises, as pure code. No I/O, no clock, no threads; standard library only.

`lifecycle` holds the state tables of tasks and operators, `graph` the stages and the edges between them.

- `engine`: decides what a driver does next.
- `restore`: decides what a job starts from.
- `messages`: what controller and driver exchange.
- `formats`: what is stored.
"""

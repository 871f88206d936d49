"""What controller and driver exchange: the driver's configuration, commands, status and final report.

Controller → driver, HTTP/JSON over TLS. Each command is an idempotent PUT that carries the epoch:

    PUT /v1/termination                     TerminationRequest → 202, 409 (one is pending), 412 (epoch, term)
    PUT /v1/savepoint                       SavepointRequest → 202, 409 (the job is ending), 412
    PUT /v1/executors                       ExecutorsRequest → 202, 412
    PUT /v1/deletions                       SavepointDeletion → 202, 412
    PUT /v1/records                         RecordsRequest → 202, 412
    PUT /v1/checkpoints/{n}/completed       Completed: checkpoint n is in the index (notifyCheckpointComplete)
    GET /v1/status?after=V&timeout=S        DriverStatus: at once if its version is above V, else on a change

The header Streamjob-Term says in which term the controller leads. Every command must have it; a GET may have
it, so that the driver learns the term. A command of an earlier term than the driver knows is refused with
412, and the answer's header names the later term. Anybody with the token may read the status, also without a
term. Only with the header Streamjob-Figures does it have the figures of the stages: a controller of an
earlier version would refuse them.

When the driver exits, it leaves its last status, cut to 4 KiB, as the pod's termination message.
"""

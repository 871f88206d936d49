"""Random jobs with edges, see graph_machine."""

from streamjob.protocol import coordinator
from tests.protocol.graph_machine import machine

TestGraphJob = machine(coordinator, 150, 40).TestCase

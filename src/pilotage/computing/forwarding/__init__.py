"""Forwarding sites (M1): jobs that come here are handed, whole, to another Pilotage, and followed there.

A pilot of this kind is a process on the server's machine which holds one job at a time, and runs nothing:

- ``element`` is the adapter, which starts such processes as the kind ``process`` starts agents;
- ``forwarder`` is that process: the agent's own conversation with its server, with another way to run a job;
- ``attempt`` is one attempt over there, from its submission to its outputs;
- ``peer`` are the calls of the other Pilotage.
"""

# Nothing is imported here: a forwarder is to load no more than it needs, as there is one for each job.

"""Forwarding sites (M1): this server hands whole jobs to another Pilotage, and follows them there.

A pilot of this kind is a process on the server's machine. It holds one job at a time and runs no payload:

- ``element`` is the adapter: it starts such processes, as the kind ``process`` starts agents;
- ``forwarder`` is the process: it talks to its server like an agent, but runs jobs in another way;
- ``attempt`` is one attempt at the other Pilotage, from submission to outputs;
- ``peer`` holds the calls to the other Pilotage.
"""

# Import nothing here: each job has a forwarder, which must stay small.

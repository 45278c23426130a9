"""The pilot agent: a process at a site that asks for jobs, runs them side by side and reports on them.

It speaks to the server over HTTP, and to the storage of its queue. It needs Linux and Python 3.9 or newer,
and nothing else. This folder imports no other part of Pilotage and no package: it is built into one file,
``agent.pyz``, which runs wherever a batch system starts it. ``python agent.pyz --help`` lists its options.

The agent (``pilot``) starts one ``supervisor`` for each payload and talks to it through a pipe (``payload``).
``wire`` defines every message between agent and server.
"""

VERSION = "0.1.0"
"""The package's version. The builder of the agent's file adds the commit."""

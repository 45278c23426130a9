"""The pilot agent: a process at a site that asks for jobs, runs them side by side and reports on them.

It speaks to the server over HTTP, and to the storage of its queue. It needs Linux and Python 3.9 or newer and
nothing else: this folder imports no other part of Pilotage and no package, because it is built into one file,
``agent.pyz``, that runs wherever a batch system starts it. ``python agent.pyz --help`` lists its options.

The process tree: the agent (``pilot``) starts one ``supervisor`` for each payload and holds its end of the
pipe (``payload``). ``wire`` is the format of all that the agent and the server tell each other.
"""

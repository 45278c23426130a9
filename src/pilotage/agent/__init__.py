"""The pilot agent: a process of its own at a site, which speaks to the server over HTTP and to nobody else.

It asks for jobs, brings their inputs, runs their payloads side by side, stores their outputs, and says what
became of them. Started as ``python -m pilotage.agent``; see ``--help`` there. Linux only.
"""

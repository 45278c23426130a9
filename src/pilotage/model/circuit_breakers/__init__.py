"""Circuit breakers: places that fail again and again are left alone for a while (P6, P8, P12, F2, F4).

``breaker`` has the record, its states and its transitions, the same for all. What trips a breaker is a policy
of each kind: ``jobs`` (F2), ``storages`` (F4), ``pilots`` (P6); of empty pilots (P12) and of list-matches
(P8) see ``pilotage.policies.pilots``.
"""

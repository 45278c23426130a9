"""Parts for any brokerage. It adds checks, weights and a way to spread jobs.

    world ─▶ groups of like jobs ─▶ columns ─▶ checks ─▶ choices and moves ─▶ decision

- ``job_groups`` and ``options``: similar jobs in order, and the options of their VO;
- ``queue_columns``, ``task_columns``, ``nuclei``, ``link_weights`` and ``offers``: attributes as columns;
- ``check`` and ``verdicts``: checks on all pairs of task and queue together, and their refusals;
  ``local_checks`` has the checks of every brokerage, ``needs`` has computations that several checks share;
- ``decision_draft``: a decision under construction: its choices, and moves with their downloads.

A queue attribute is a column of shape (Q,), a task attribute one of shape (T, 1). A check returns a mask over
(T, Q). Every check judges every queue. The reasons come from the arrays that decided.
"""

"""Parts that any brokerage is built from; it adds its own checks, weights and way of spreading jobs.

    world ─▶ groups of like jobs ─▶ columns ─▶ checks ─▶ choices and moves ─▶ decision

- ``job_groups`` and ``options``: like jobs in turn, and what holds for their VO;
- ``queue_columns``, ``task_columns``, ``nuclei``, ``link_weights`` and ``offers``: attributes as columns;
- ``check`` and ``verdicts``: checks on all pairs at once, and the refusals they give; ``local_checks`` are
  those that every brokerage makes, ``needs`` what several compute alike;
- ``decision_draft``: a decision under construction: its choices, and moves with their downloads.

A queue's attribute is a column of shape (Q,), a task's one of shape (T, 1); a check gives a mask over
(T, Q). Every check runs on every queue; the reasons are made from the arrays that decided.
"""

"""What any brokerage is built of; a brokerage adds its own checks, its weights and its way of spreading jobs.

    world ─▶ groups of like jobs ─▶ columns ─▶ checks ─▶ choices and moves ─▶ decision

- ``job_groups``, ``global_shares`` and ``options``: like jobs, their turn, and what holds for their VO;
- ``queue_columns``, ``task_columns``, ``nuclei``, ``link_weights`` and ``offers``: attributes as columns;
- ``check`` and ``verdicts``: checks on all pairs at once, and the refusals they give;
- ``moves``: the decision under construction, downloads included.

A queue's attribute is a column of shape (Q,), a task's one of shape (T, 1); a check gives a mask over
(T, Q). Every check runs on every queue; the reasons are made from the arrays that decided.
"""

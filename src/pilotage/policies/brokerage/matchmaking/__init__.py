"""The matchmaking brokerage (rules M): the reference library matches job and site ClassAds both ways.

    world ─▶ ads of sites and jobs ─▶ Requirements of both, Rank ─▶ one match after another ─▶ decision

- ``library`` is the ClassAd library, which nothing else imports;
- ``site_ads`` and ``job_ads`` say what each side offers and requires, ``fitness`` which queues can
  run a job at all;
- ``turns`` orders groups, also waiting ones of the next cycle;
- ``sites`` counts the cycle's matches, ``matching`` evaluates both sides over all sites at once;
- ``cycle`` has the plugin, and draws sites and queues; ``reasons`` names the parts that were not true.
"""

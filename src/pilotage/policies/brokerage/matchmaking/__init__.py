"""The matchmaking brokerage (rules M): the reference library matches job and site ClassAds both ways.

    world ─▶ ads of sites and jobs ─▶ Requirements of both, Rank ─▶ one match after another ─▶ decision

- ``engine.classad_library`` is the ClassAd library, which no other module imports;
- ``engine.site_ads`` and ``engine.job_ads`` have the offers and requirements of each side, ``fitness`` finds
  the queues that can run a job;
- ``turns`` orders groups, also groups that wait for the next cycle;
- ``engine.advertised_sites`` counts the cycle's matches, ``engine.site_matches`` evaluates both sides over
  all sites;
- ``cycle`` has the plugin, and draws sites and queues; ``reasons`` names the parts that were not true.
"""

"""The matchmaking brokerage (rules M): job and site ClassAds, matched both ways by the reference library.

    world ─▶ ads of sites and jobs ─▶ Requirements of both, Rank ─▶ one match after another ─▶ decision

- ``library`` is the ClassAd library, which nothing else imports;
- ``site_ads`` and ``job_ads`` say what each side tells and requires, ``fitness`` what queues can run at all;
- ``turns`` puts groups in order, those that wait for the next cycle among them;
- ``sites`` counts what was matched in the cycle, ``matching`` evaluates both sides over all sites at once;
- ``cycle`` has the plugin, and draws sites and queues, ``reasons`` names the parts that were not true.
"""

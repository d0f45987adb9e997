"""``flota dashboard``, and the page of ``flota launch --dashboard``: a running job in a browser.

    command.py    which job, where it listens, how long
    watching.py   one thread looks at the job, once a second while somebody watches
      history.py  curves: how it did, in as many points however long
      scene.py    how it does now: processes, tables, what is kept
      events.py   what has happened to it; logs.py the ends of logs
      saves.py    what servers and workers have saved
    site.py       what is at which path; door.py who may come in; bounds.py how many at a time
    static/       the page itself: HTML, CSS and modules, as they are served

The page changes nothing: it is asked with GET alone, and asks the job as ``flota top`` does.
"""

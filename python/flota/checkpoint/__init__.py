"""Checkpoints: folders of safetensors files and a manifest. docs/checkpoint_format.md has the format.

``manifest.py`` is what the manifest says, ``folder.py`` how a folder is published and its files are trusted,
``places.py`` and ``objects.py`` the same behind a URL, ``kept.py`` the newest of a job side by side. ``writer.py`` and
``reader.py`` are tables in files, ``commands/`` is ``flota checkpoint``. ``restore.py`` fills a server before it
listens and needs no torch; ``job.py`` saves and loads a running job's tables; ``parameters.py`` maps torch's optimizer
state.
"""

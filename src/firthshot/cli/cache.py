"""``firthshot cache``: what is kept of pictures and texts that were embedded, and its removal."""

from __future__ import annotations

from firthshot.cli._screen import plain, say, screen
from firthshot.cli._screen import table as make_table


def cache(clear: bool = False) -> None:
    """Show the cache of embeddings, or clear it; it only saves time.

    FIRTHSHOT_CACHE is its folder; FIRTHSHOT_CACHE_MB (2000) is the most that it holds.
    """
    from firthshot.backbones.cache import cache_file, cache_limit, cached_encoders, clear_cache

    console = screen()
    if clear:
        say(console, f"Removed {clear_cache():,} embeddings from {cache_file()}.")
        return
    held = cached_encoders()
    if held:
        table = make_table("encoder", "embeddings", "MB", "last used", right=("embeddings", "MB"))
        for one in held:
            name = one.name or f"fingerprint {one.fingerprint[:12]}"
            table.add_row(plain(name), f"{one.rows:,}", f"{one.size / 1e6:.1f}", _day(one.used))
        console.print(table)
    total = sum(one.size for one in held) / 1e6
    limit = cache_limit() / 1e6
    say(console, f"{cache_file()}: {total:,.1f} of at most {limit:,.0f} MB.")


def _day(when: float) -> str:
    import datetime

    return datetime.datetime.fromtimestamp(when).astimezone().date().isoformat()

"""Compact durations, counts and sizes, as console lines print them."""

MISSING = "n/a"
_COUNT_UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "B": 1e9}
_BYTE_UNITS = {"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15}


def short_duration(seconds: float) -> str:
    """41s, 3m20s, 2h05m, 3d04h, 12y200d: a few characters."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds}s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}m{seconds:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes:02d}m"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours:02d}h" if days < 730 else f"{days // 365}y{days % 365}d"


def exact_seconds(seconds: float | None, digits: int = 2) -> str:
    """A time in seconds with so many decimals."""
    return MISSING if seconds is None else f"{seconds:.{digits}f}s"


def short_count(number: float) -> str:
    """864, 33.2k, 1.26M: three significant digits."""
    unit = next((unit for unit, size in _COUNT_UNITS.items() if number < 999.5 * size), "B")
    return f"{number / _COUNT_UNITS[unit]:.3g}{unit}" if unit else f"{number:.0f}"


def short_bytes(count: float) -> str:
    """864 B, 33.2 kB, 1.26 GB: three digits."""
    if count < 999.5:
        return f"{count:.0f} B"
    unit, size = next((each for each in _BYTE_UNITS.items() if count < 999.5 * each[1]), ("PB", 1e15))
    number = count / size
    return f"{number:.{max(2 - len(str(int(number))) + 1, 0)}f} {unit}" if number < 99.95 else f"{number:,.0f} {unit}"

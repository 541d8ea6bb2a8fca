"""From JSON to the types of `events.py`. What a newer rawko adds is kept in `raw`, and what an older one lacks is `None`."""

from __future__ import annotations

from typing import Any, ClassVar, Dict, Mapping, Tuple, Type, TypeVar

R = TypeVar("R", bound="Record")


class Record:
    """An object of the stream. `raw` is the object as it came, with fields that this version does not know."""

    #: The attribute, the key in JSON, and how its value is read: as it is (`None`), as a flag, a record or a list.
    FIELDS: ClassVar[Tuple[Tuple[str, str, Any], ...]] = ()
    raw: Mapping[str, Any]

    @classmethod
    def from_json(cls: Type[R], value: Mapping[str, Any]) -> R:
        """Reads an object."""
        fields: Dict[str, Any] = {name: _read(value.get(key), how) for name, key, how in cls.FIELDS}
        return cls(**{**fields, "raw": value})


def _read(value: Any, how: Any) -> Any:
    if isinstance(how, list):
        # A list and a flag are left out where there is nothing in them.
        value = [] if value is None else value
        return [_read(item, how[0]) for item in value] if isinstance(value, list) else value
    if how is bool:
        return False if value is None else value
    if how is not None and isinstance(value, Mapping):
        return how.from_json(value)
    return value

"""The access token of a client, from a text or from a file that another program may replace."""

from __future__ import annotations

import os
from typing import Optional

from .errors import InvalidArgument


def token_in(text: str) -> Optional[str]:
    """The token in a file: the token itself, or the header `Authorization: Bearer TOKEN`."""
    line = text.strip()
    name, mark, value = line.partition(":")
    if mark:
        scheme, _, token = value.strip().partition(" ")
        if name.lower() != "authorization" or scheme.lower() != "bearer":
            return None
        line = token.strip()
    is_plain = bool(line) and all("!" <= character <= "~" for character in line)
    return line if is_plain else None


class AccessToken:
    """The value of the header `Authorization`. `repr` does not show it."""

    def __init__(self, text: Optional[str] = None, file: Optional[str] = None) -> None:
        if text is not None and file is not None:
            raise InvalidArgument("give access_token or access_token_file, not both")
        self._file = file
        self._read_at: Optional[int] = None
        self._token = token_in(text) if text is not None else None
        if text is not None and self._token is None:
            raise InvalidArgument("access_token is no access token")
        if file is not None:
            try:
                self._read()
            except OSError as error:
                raise InvalidArgument(f"cannot read access_token_file: {error}") from None
            if self._token is None:
                raise InvalidArgument(f"{file} has no access token: write the token, or Authorization: Bearer TOKEN")

    @property
    def may_change(self) -> bool:
        """Whether a later read may return another token."""
        return self._file is not None

    def read_again(self) -> None:
        """Reads the file at the next use, even if its time of change is the same."""
        self._read_at = None

    def header(self) -> Optional[str]:
        """While the file cannot be read, its last content is used."""
        try:
            self._read()
        except OSError:
            pass
        return f"Bearer {self._token}" if self._token else None

    def _read(self) -> None:
        if self._file is None:
            return
        modified = os.stat(self._file).st_mtime_ns
        if modified == self._read_at:
            return
        with open(self._file, encoding="utf-8", errors="replace") as file:
            self._token = token_in(file.read()) or self._token
        self._read_at = modified

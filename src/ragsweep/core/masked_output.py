"""Mask secrets in everything that this process prints and logs, before it is written."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any


class MaskedStream:
    """A text stream that passes everything written to it through the function ``mask_text``.

    The property ``styled`` is a stream for text with terminal styles; it masks text with the constructor's argument
    ``styled`` in place of ``mask_text``.
    """

    def __init__(self, stream: Any, mask_text: Callable[[str], str], styled: Callable[[str], str]) -> None:
        self._stream, self._mask_text, self._styled = stream, mask_text, styled

    @property
    def styled(self) -> MaskedStream:
        """The stream for text with terminal styles, masked with the function ``styled``."""
        return MaskedStream(getattr(self._stream, "styled", self._stream), self._styled, self._styled)

    def write(self, text: str) -> int:
        """Mask and write ``text``; return the length of the unmasked text."""
        self._stream.write(self._mask_text(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Mask and write lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def masked_records(
    make: Callable[..., logging.LogRecord], mask_text: Callable[[str], str]
) -> Callable[..., logging.LogRecord]:
    """Return a factory of log records that creates each record with ``make``, and formats and masks it immediately."""
    formatter = logging.Formatter()

    def make_masked(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        try:
            text = record.getMessage()
        except Exception:  # the arguments do not match the format string: logging would print both
            text = f"{record.msg} {record.args}"
        record.msg, record.args = mask_text(text), None
        if record.exc_info and record.exc_info[0] is not None:
            record.exc_text = mask_text(formatter.formatException(record.exc_info))
        if record.stack_info:
            record.stack_info = mask_text(record.stack_info)
        return record

    return make_masked

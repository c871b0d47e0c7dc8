"""Keys of texts, their order, and what is said of a text that is no JSON: written down by hand."""

from __future__ import annotations

from tools._vectors.streams import Case

TEXT_KEYS: list[tuple[str, str]] = [
    ("", ""),
    ("   ", ""),
    ("Add eleven and four.", "add eleven and four."),
    ("  two\twords \n here\r\n", "two words here"),
    ("no\u00a0break\u2003em\u3000wide", "no break em wide"),
    ("file\x1cgroup\x1drecord\x1eunit\x1fend", "file group record unit end"),
    ("next\u0085line\x0bfeed\x0cpage", "next line feed page"),
    ("zero\u200bwidth and\ufeffmark stay", "zero\u200bwidth and\ufeffmark stay"),
    ("a\u180eb", "a\u180eb"),
    ("0.75", "0.75"),
    ("They're MORE efficient", "they're more efficient"),
    ("Straße STRASSE ẞ", "straße strasse ß"),
    ("ÄÖÜ Éclair ÇA Ñandú", "äöü éclair ça ñandú"),
    ("İstanbul I ı", "i\u0307stanbul i ı"),
    ("ΟΔΥΣΣΕΥΣ ΣΟΦΟΣ Σ", "οδυσσευς σοφος σ"),
    ("ΑΣ' ΑΣ'Α ΑΣ. ΑΣ\u0301", "ας' ασ'α ας. ας\u0301"),
    ("ПРИВЕТ Ёж Ѐ", "привет ёж ѐ"),
    ("ԱՐԵՒ ႠႡ Ა ᏸ Ꭰ", "արեւ ⴀⴁ ა ᏸ ꭰ"),
    ("ǅ Ǆ Ǌ Ǳ", "ǆ ǆ ǌ ǳ"),
    ("K Å Ω", "k å ω"),
    ("Ⅷ Ⓐ Ａ Ⱥ Ɐ", "ⅷ ⓐ ａ ⱥ ɐ"),
    ("\U00010400\U0001e921 \U0001f600", "\U00010428\U0001e943 \U0001f600"),
]
"""Text and key. Blanks are Unicode's; letters are folded by the full mapping for lower case, untailored."""

CODE_POINT_ORDER = [
    "",
    " ",
    "0",
    "A",
    "Z",
    "a",
    "a b",
    "ab",
    "z",
    "\u00e9",
    "\u4e2d",
    "\ue000",
    "\ufffd",
    "\U00010000",
    "\U00010000a",
    "\U0001f600",
    "\U0001f601",
]
"""In the order of code points; the order of UTF-16 units differs from U+E000 on."""

JSON_FAULTS: list[tuple[str, str]] = [
    ("", "Expecting value: line 1 column 1 (char 0)"),
    ("nul", "Expecting value: line 1 column 1 (char 0)"),
    ("-", "Expecting value: line 1 column 1 (char 0)"),
    ("[1, 2", "Expecting ',' delimiter: line 1 column 6 (char 5)"),
    ('{"a" 1}', "Expecting ':' delimiter: line 1 column 6 (char 5)"),
    ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ('{\n "a": 1,\n "b": tru\n}', "Expecting value: line 3 column 7 (char 17)"),
    ("[01]", "Expecting ',' delimiter: line 1 column 3 (char 2)"),
    ("[1.]", "Expecting ',' delimiter: line 1 column 3 (char 2)"),
    ('"open', "Unterminated string starting at: line 1 column 1 (char 0)"),
    ('["\U0001f600", x]', "Expecting value: line 1 column 7 (char 6)"),
    ('"tab\there"', "Invalid control character at: line 1 column 5 (char 4)"),
    ('"\\q"', "Invalid \\escape: line 1 column 2 (char 1)"),
    ("1 2", "Extra data: line 1 column 3 (char 2)"),
]
"""Text and what is wrong with it, in the words of Python's reader."""


def text_section() -> Case:
    """Keys, and an order to sort into."""
    return {"keys": [list(pair) for pair in TEXT_KEYS], "order": CODE_POINT_ORDER}


def json_cases() -> list[Case]:
    """Texts that are no JSON."""
    return [{"text": text, "error": error} for text, error in JSON_FAULTS]

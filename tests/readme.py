"""The examples of the README and the docs, as they are printed."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def python_blocks(page: Path) -> list[str]:
    """All Python examples on a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def python_block(containing: str) -> str:
    """The one Python example of the README with this text in it."""
    (block,) = (block for block in python_blocks(README) if containing in block)
    return block

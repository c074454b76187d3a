"""The README's examples, as they are printed."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def python_block(containing: str) -> str:
    """The one Python example of the README with this text in it."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (block,) = (block for block in blocks if containing in block)
    return str(block)

"""Writes the tables of docs/environment.md from the code: `python docs/make_features.py`."""

from pathlib import Path

from briscola_env import Rules, briscola_v0
from briscola_env.encoding import features
from briscola_env.rules import PLAYER_COUNTS

PAGE = Path(__file__).parent / "environment.md"


def sizes_table() -> str:
    """Sizes for each number of players, with the other options at their defaults."""
    lines = [
        "| players | cards | plays of an agent | `observation` | `action_mask` | `state()` |",
        "|---|---|---|---|---|---|",
    ]
    for players in PLAYER_COUNTS:
        env = briscola_v0.raw_env(players=players)
        space = env.observation_space("player_0")
        cells = [
            players,
            len(env.rules.deck),
            env.rules.num_tricks,
            space["observation"].shape[0],
            space["action_mask"].shape[0],
            env.state_space.shape[0],
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def features_table(rules: Rules) -> str:
    """The layout of the observation vector under these rules."""
    lines = ["| feature | places | size | meaning |", "|---|---|---|---|"]
    for feature in features(rules):
        size = feature.stop - feature.start
        places = f"{feature.start} .. {feature.stop - 1}" if size else "none: the option is off"
        lines.append(f"| `{feature.name}` | {places} | {size} | {feature.meaning} |")
    return "\n".join(lines)


def with_tables(page: str) -> str:
    """The page with what stands between its markers made anew."""
    for name, table in (("sizes", sizes_table()), ("features", features_table(Rules()))):
        begin, end = f"<!-- {name}: made by make_features.py -->\n", f"<!-- end of {name} -->"
        before, rest = page.split(begin)
        page = before + begin + table + "\n" + end + rest.split(end, 1)[1]
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

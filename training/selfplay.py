"""Self-play PPO over whole deals, from top to bottom: collect, advantages, update, log, evaluate.

    python -m training.selfplay --config configs/quick.yaml --run-dir runs/quick

One network plays all seats, and all seats' decisions are learned from; a league may give some deals
an opponent. Started by torchrun, every rank collects its part of the deals and all take the same
steps (training/ranks.py). Proximal policy optimisation: Schulman et al., 2017; the masked softmax
and the details follow common practice. Everything random comes from the run's seed and the
iteration's number, so that a run is repeatable and a resumed one needs no generator's state.
"""

import argparse
import hashlib
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from briscola_env.arena.entrants import load_policy
from briscola_env.arena.match import evaluate as evaluate_match
from briscola_env.checkpoint import (
    BEST,
    LAST,
    Checkpoint,
    find,
    read_tensors,
    replace_file,
    write_tensors,
)
from briscola_env.policies.network import (
    entropy,
    kl_from_uniform,
    make_checkpoint,
    masked_log_probs,
    policy_of,
    sample_actions,
    weights_of,
)
from briscola_env.rng import child_seed, child_seeds
from briscola_env.rules import CheckpointError
from training.config import ConfigError, TrainingConfig, load_config
from training.learner import (
    DEALS_SEED,
    EVALUATION_SEED,
    LEAGUE_SEED,
    MINIBATCH_SEED,
    Learner,
    first_weights,
    make_learner,
)
from training.log import METRICS, Log
from training.ranks import Ranks, join_ranks, leave_ranks
from training.rollout import Opponents, Rollout, advantages, collect

RESUME, CONFIG = "resume.safetensors", "config.yaml"
PROGRESS = ("iteration", "deals", "decisions", "seconds", "best_margin")


# ----------------------------------------------------------------------------------------- collect


@dataclass
class Collected:
    """A rank's deals of an iteration."""

    rollout: Rollout
    opponents: Opponents
    inference_seconds: float  # spent in the learner's network


def collect_deals(learner: Learner) -> Collected:
    """This rank's deals of the iteration; a seat plays a sample of its policy."""
    config, league = learner.config, learner.league
    deals = np.empty(config.deals, np.uint64)
    child_seeds(learner.seed(DEALS_SEED), 0, deals)
    deals = learner.ranks.part(deals)
    opponents = league.opponents(config.deals, int(learner.seed(LEAGUE_SEED)))
    opponents = opponents.part(learner.ranks.part)
    seconds = 0.0

    def choose(
        observations: NDArray[np.int8], legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        nonlocal seconds
        start = time.perf_counter()
        logits = learner.network.logits(torch.from_numpy(observations).to(learner.device))
        actions, log_probs = np.empty(len(legal), np.int64), np.empty(len(legal), np.float32)
        sample_actions(logits.cpu().numpy(), legal, seeds, actions, log_probs)
        seconds += time.perf_counter() - start
        return actions, log_probs

    with torch.inference_mode(), learner.autocast():
        rollout = collect(
            learner.encoder, deals, choose, config.reward_points, config.exact_endgame, opponents
        )
    return Collected(rollout, opponents, seconds)


# ---------------------------------------------------------------------------------------- advantage


@dataclass(frozen=True)
class Batch:
    """A rank's decisions of an iteration, [M] in order of deal, seat, slot."""

    observations: torch.Tensor  # int8 [M, size]
    legal: torch.Tensor  # bool [M, num_actions]
    actions: torch.Tensor  # int64 [M]
    log_probs: torch.Tensor  # float32 [M]
    advantages: torch.Tensor  # float32 [M], mean 0 and deviation 1 over all ranks
    returns: torch.Tensor  # float32 [M], what the critic learns
    values: torch.Tensor  # float32 [M], what it said
    counts: list[int]  # decisions of every rank


def make_batch(learner: Learner, rollout: Rollout) -> Batch:
    """Value every decision, and estimate how much better it was than expected."""
    valid = rollout.valid
    observations = torch.from_numpy(rollout.observations[valid]).to(learner.device)
    with torch.inference_mode(), learner.autocast():
        parts = [learner.network.values(part) for part in observations.split(16384)]
    estimates = torch.cat(parts).clone()
    values = np.zeros(valid.shape, np.float32)
    values[valid] = estimates.cpu().numpy()
    gains = advantages(rollout.rewards, values, valid, learner.config.gae_lambda)[valid]
    gained = torch.from_numpy(gains).to(learner.device)
    mean, deviation = moments(learner.ranks, gained)
    return Batch(
        observations,
        *(
            torch.from_numpy(array[valid]).to(learner.device)
            for array in (rollout.legal, rollout.actions, rollout.log_probs)
        ),
        (gained - mean) / (deviation + 1e-8),
        gained + estimates,
        estimates,
        learner.ranks.counts(len(gained)),
    )


def moments(ranks: Ranks, values: torch.Tensor) -> tuple[float, float]:
    """Mean and standard deviation over all ranks."""
    exact = values.double()
    count = torch.full_like(exact, 1.0)
    sums = ranks.sum(torch.stack([count.sum(), exact.sum(), exact.square().sum()]))
    number, total, squares = sums.tolist()
    mean = total / number
    return mean, max(squares / number - mean**2, 0.0) ** 0.5


# ------------------------------------------------------------------------------------------- update


def update(learner: Learner, batch: Batch) -> dict[str, float]:
    """Some epochs of PPO over the batch, in place; the usual metrics, averaged over the steps."""
    config = learner.config
    now = config.scheduled(learner.iteration)
    for group in learner.optimizer.param_groups:
        group["lr"] = now["learning_rate"]
    generator = torch.Generator().manual_seed(int(learner.seed(MINIBATCH_SEED)) >> 1)
    steps: list[torch.Tensor] = []
    # Minibatches are drawn from the decisions of all ranks, which stand in order of rank, so that
    # they do not depend on the number of ranks; each rank adds its own decisions' gradients.
    first = sum(batch.counts[: learner.ranks.rank])
    parameters = list(learner.network.parameters())
    for _ in range(config.epochs):
        order = torch.randperm(sum(batch.counts), generator=generator)
        for drawn in order.split(config.minibatch):
            own = drawn[(drawn >= first) & (drawn < first + len(batch.actions))] - first
            loss, metrics = ppo_loss(learner, batch, own.to(learner.device), len(drawn), now)
            learner.optimizer.zero_grad()
            loss.backward()
            learner.ranks.sum_gradients(parameters)
            norm = torch.nn.utils.clip_grad_norm_(parameters, config.max_grad_norm)
            learner.optimizer.step()
            steps.append(torch.stack([*metrics, norm / learner.ranks.size]))
    means = learner.ranks.sum(torch.stack(steps).mean(0)).tolist()
    # The weights too: the last step's may not be, while no loss has seen it yet.
    if not np.isfinite(means).all() or not all(part.isfinite().all() for part in parameters):
        raise FloatingPointError(
            f"the loss or the weights are not finite in iteration {learner.iteration}: {means}; "
            "a smaller learning_rate may help"
        )
    names = (
        "policy_loss",
        "value_loss",
        "entropy",
        "uniform_kl",
        "approx_kl",
        "clip_fraction",
        "grad_norm",
    )
    _, error = moments(learner.ranks, batch.returns - batch.values)
    _, spread = moments(learner.ranks, batch.returns)
    return {
        **{f"losses/{name}": value for name, value in zip(names, means, strict=True)},
        "losses/explained_variance": 1 - (error / spread) ** 2,
        **{f"charts/{name}": value for name, value in now.items()},
    }


def ppo_loss(
    learner: Learner, batch: Batch, rows: torch.Tensor, size: int, coefs: Mapping[str, float]
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """What some rows add to the clipped loss of a minibatch of `size`, and what to report of it.

    The policy gradient moves an action as much as it is played: one that noise has made improbable
    stays so, however good. The divergence from uniform pulls each legal one back at the same rate,
    and so its probability falls with what it loses, not with the exponential of it.
    """
    config = learner.config
    with learner.autocast():
        observations = learner.network.inputs(batch.observations.index_select(0, rows))
        logits = learner.network.logits(observations)
        values = learner.network.values(observations)
    legal = batch.legal[rows]
    log_probs = masked_log_probs(logits, legal)
    log_ratio = log_probs.gather(1, batch.actions[rows, None])[:, 0] - batch.log_probs[rows]
    ratio = log_ratio.exp()
    gain = batch.advantages[rows]
    clipped = ratio.clamp(1 - config.clip_coef, 1 + config.clip_coef)
    policy_loss = -torch.min(ratio * gain, clipped * gain).sum() / size
    value_loss = 0.5 * (values - batch.returns[rows]).square().sum() / size
    spread = entropy(log_probs).sum() / size
    uniform = kl_from_uniform(log_probs, legal).sum() / size
    loss = policy_loss + config.value_coef * value_loss
    loss = loss - coefs["entropy_coef"] * spread + coefs["uniform_coef"] * uniform
    with torch.no_grad():
        approx_kl = ((ratio - 1) - log_ratio).sum() / size
        clip_fraction = ((ratio - 1).abs() > config.clip_coef).float().sum() / size
    parts = [part.detach() for part in (policy_loss, value_loss, spread, uniform)]
    return loss, [*parts, approx_kl, clip_fraction]


# ----------------------------------------------------------------------------- evaluate, save, log


def evaluate(learner: Learner) -> dict[str, float]:
    """The network, playing its best action, against each configured opponent on mirrored decks.

    Its checkpoints say the result from now on.
    """
    settings, rules = learner.config.evaluation, learner.config.table
    policy = policy_of(to_checkpoint(learner), rules, "learner")
    seed = int(child_seed(np.uint64(learner.config.seed), EVALUATION_SEED))
    metrics = {}
    learner.measured = {"iteration": learner.iteration, "decks": settings.decks}
    for name in settings.against:
        match = evaluate_match(policy, load_policy(name, rules), rules, settings.decks, seed)
        metrics[f"eval/margin_{name}"] = match.margin.value
        metrics[f"eval/margin_low_{name}"] = match.margin.low
        metrics[f"eval/margin_high_{name}"] = match.margin.high
        metrics[f"eval/score_{name}"] = match.score.value
        metrics[f"eval/score_low_{name}"] = match.score.low
        metrics[f"eval/score_high_{name}"] = match.score.high
        metrics[f"eval/win_rate_{name}"] = match.wins / match.games
        metrics[f"eval/draw_rate_{name}"] = match.draws / match.games
        margin = match.margin
        learner.measured[f"against {name}"] = {
            "margin": round(margin.value, 2),
            "interval": [round(margin.low, 2), round(margin.high, 2)],
            "score": round(match.score.value, 4),
        }
    return metrics


def to_checkpoint(learner: Learner) -> Checkpoint:
    """The learner as it is, as a checkpoint."""
    config = learner.config
    facts = {
        "algorithm": "self-play PPO",
        "seed": config.seed,
        "iterations": learner.iteration,
        "deals": learner.deals,
        "decisions": learner.decisions,
        "seconds": round(learner.seconds, 1),
        "measured": learner.measured,
    }
    return make_checkpoint(
        learner.network, learner.encoder, config.reward_points, facts, config.exact_endgame
    )


def save(learner: Learner, run_dir: Path, best: bool) -> None:
    """The checkpoint, and beside it all that a resumed run needs; each file whole or not at all."""
    checkpoint, keep = to_checkpoint(learner), learner.config.keep_checkpoints
    if best:
        checkpoint.save(run_dir / BEST)
    checkpoint.save(run_dir / LAST)
    if keep:
        checkpoint.save(run_dir / f"iteration-{learner.iteration:06}.safetensors")
        for old in sorted(run_dir.glob("iteration-*.safetensors"))[:-keep]:
            old.unlink()
    tensors = {f"weights/{name}": array for name, array in checkpoint.weights.items()}
    for name, parameter in learner.network.named_parameters():
        for key, tensor in learner.optimizer.state[parameter].items():
            tensors[f"{key}/{name}"] = tensor.detach().cpu().numpy()
    tensors |= {f"league/{name}": array for name, array in learner.league.tensors().items()}
    header = {name: getattr(learner, name) for name in PROGRESS}
    header["league"] = learner.league.scores()
    header["measured"] = learner.measured
    header |= what_counts(learner.config)
    header["checkpoint_sha256"] = hashlib.sha256((run_dir / LAST).read_bytes()).hexdigest()
    write_tensors(run_dir / RESUME, tensors, header)


def what_counts(config: TrainingConfig) -> dict[str, object]:
    """What a resumed run is to have in common with the saved one, or else what it means changes."""
    encoder = config.encoder
    return {
        "sees": [encoder.frame, encoder.show_points, encoder.digest],
        "best_against": config.evaluation.against[0],
    }


def restore(run_dir: Path, changes: Sequence[str], ranks: Ranks = Ranks()) -> Learner:  # noqa: B008
    """The learner of a run as it was saved last; ConfigError or CheckpointError if it cannot be.

    Only the leading rank needs the folder.
    """
    config, (tensors, header) = ranks.from_leader(
        lambda: (checked_config(run_dir / CONFIG, changes), read_tensors(find(run_dir / RESUME)))
    )
    learner = make_learner(config, ranks)
    groups: dict[str, dict[str, NDArray]] = {}
    for name, array in tensors.items():
        key, _, parameter = name.partition("/")
        groups.setdefault(key, {})[parameter] = array.copy()
    try:
        learner.league.restore(groups.pop("league", {}), header["league"])
        tensors = {
            key: {name: torch.from_numpy(array).to(learner.device) for name, array in group.items()}
            for key, group in groups.items()
        }
        learner.network.load_state_dict(tensors.pop("weights"))
        for name, value in learner.network.named_parameters():
            learner.optimizer.state[value] = {key: group[name] for key, group in tensors.items()}
        for name in PROGRESS:
            setattr(learner, name, header[name])
        learner.measured = header["measured"]
        now = what_counts(config)
        if header.get("sees", now["sees"]) != now["sees"]:
            raise KeyError(f"it sees {header['sees']}, not {now['sees']}")
        if header.get("best_against", now["best_against"]) != now["best_against"]:
            learner.best_margin = -float("inf")  # it was over another opponent
    except (KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{run_dir / RESUME}: not of this run's network ({reason})") from None
    return learner


# --------------------------------------------------------------------------------------------- run


def iterate(learner: Learner) -> dict[str, float]:
    """One iteration, in place: deals, advantages, update, league; its metrics."""
    config, ranks, start = learner.config, learner.ranks, time.perf_counter()
    collected = collect_deals(learner)
    rollout, played = collected.rollout, time.perf_counter()
    batch = make_batch(learner, rollout)
    valued = time.perf_counter()
    metrics = update(learner, batch)
    results = ranks.sum(learner.league.results(collected.opponents, rollout))
    learner.iteration += 1
    metrics |= learner.league.update(results, learner.iteration, weights_of(learner.network))
    seconds = time.perf_counter() - start
    inference = collected.inference_seconds + valued - played
    decisions = sum(batch.counts)
    # A seat that the learner plays, in every deal.
    opponents, deals = collected.opponents, np.arange(len(rollout.margins))
    seats = np.where(opponents.which < 0, 0, opponents.side)
    learner.deals += config.deals
    learner.decisions += decisions
    learner.seconds += seconds
    own = {
        "charts/engine_share": (valued - start - inference) / seconds,
        "charts/inference_share": inference / seconds,
        "charts/update_share": 1 - (valued - start) / seconds,
        "rollout/ep_rew_mean": float(rollout.rewards[deals, seats].sum(axis=-1).mean()),
        "rollout/margin_deviation": float(rollout.margins[deals, seats].std()),
        "rollout/illegal_actions": int((~batch.legal.gather(1, batch.actions[:, None])).sum()),
    }
    weight = len(deals) / config.deals  # of this rank's deals among all
    means = ranks.sum(torch.tensor(list(own.values()), dtype=torch.float64) * weight)
    return {
        **metrics,
        "charts/samples_per_second": decisions / seconds,
        "charts/deals_per_second": config.deals / seconds,
        "rollout/ep_len_mean": decisions / config.deals,
        **dict(zip(own, means.tolist(), strict=True)),
    }


def train(learner: Learner, run_dir: Path) -> None:
    """Iterate to the end of the run; Ctrl-C ends after the iteration, saves, and says how to go on.

    An iteration is never left in the middle, so that a resumed run is the one that went through.
    """
    config, stop = learner.config, threading.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.signal(number, lambda *_: stop.set()) for number in signals]
    columns = (
        TextColumn("train"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    leads, done = learner.ranks.leads, (learner.iteration, learner.decisions)
    log = Log(run_dir, config, *done) if leads else None
    try:
        with Progress(*columns, disable=not leads) as bar:
            task = bar.add_task("", total=config.iterations, completed=learner.iteration)
            while learner.iteration < config.iterations:
                metrics = iterate(learner)
                if log is not None:
                    lead(learner, run_dir, log, metrics)
                    if f"eval/margin_{config.evaluation.against[0]}" in metrics:
                        bar.update(task, description=summary(metrics, config.evaluation.against))
                bar.update(task, completed=learner.iteration)
                if sum(learner.ranks.counts(stop.is_set())):
                    break
    finally:
        for number, handler in zip(signals, handlers, strict=True):
            signal.signal(number, handler)
        if log is not None:
            log.close()
    if log is not None and learner.iteration < config.iterations:
        save(learner, run_dir, best=False)
        print(f"stopped; {how_to_go_on(run_dir)}")


def lead(learner: Learner, run_dir: Path, log: Log, metrics: dict[str, float]) -> None:
    """After an iteration: evaluate, log and save, when it is time; adds to `metrics`."""
    config = learner.config
    last, best = learner.iteration == config.iterations, False
    if last or learner.iteration % config.evaluation.every == 0:
        metrics |= evaluate(learner)
        margin = metrics[f"eval/margin_{config.evaluation.against[0]}"]
        best = margin > learner.best_margin
        learner.best_margin = max(margin, learner.best_margin)
    log.write(learner.iteration, learner.decisions, metrics)
    if last or best or learner.iteration % config.checkpoint_every == 0:
        save(learner, run_dir, best)


def how_to_go_on(run_dir: Path) -> str:
    """The command that takes up a run."""
    if not (run_dir / RESUME).exists():
        return "nothing was saved yet: the same command begins again"
    return f"go on with: python -m training.selfplay --resume {run_dir}"


def summary(metrics: dict[str, float], against: Sequence[str]) -> str:
    """A measurement in a few words, for the progress bar."""
    return "  ".join(f"{name} {metrics[f'eval/margin_{name}']:+.1f}" for name in against)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m training.selfplay", description=__doc__)
    parser.add_argument("--config", type=Path, help="a preset over configs/default.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--run-dir", type=Path, help="a new folder for logs and checkpoints")
    where.add_argument("--resume", type=Path, metavar="RUN_DIR", help="go on with a run")
    options = parser.parse_args(arguments)
    if options.resume and options.config:
        parser.error("--resume goes on with the run's own config; change it by --set")
    run_dir, ranks = options.resume or options.run_dir, join_ranks()
    failure: Exception | None = None
    try:
        if options.resume:
            learner = restore(run_dir, options.changes, ranks)
        else:
            learner = begin(run_dir, options.config, options.changes, ranks)
    except (ValueError, OSError) as error:
        failure = error
    # One rank alone may have failed, at a file that it lacks: the others are not to wait for it.
    failed = ranks.counts(failure is not None)
    if any(failed):
        if failure is not None and (ranks.leads or not failed[0]):
            print(f"training.selfplay: {failure}", file=sys.stderr)
        leave_ranks(ranks, 2)
        return 2
    try:
        if ranks.leads:
            write_config(learner.config, run_dir)
        train(learner, run_dir)
        leave_ranks(ranks, 0)
    except (OSError, FloatingPointError, RuntimeError) as error:
        if type(error) is RuntimeError and ranks.size == 1:
            raise  # a defect; with more ranks it may be a lost connection
        # What was saved last is whole: nothing is written over before its successor is.
        who = f"rank {ranks.rank} of {ranks.size}: " if ranks.size > 1 else ""
        print(f"training.selfplay: {who}{error}; {how_to_go_on(run_dir)}", file=sys.stderr)
        return 2
    return 0


def write_config(config: TrainingConfig, run_dir: Path) -> None:
    """Write the merged settings of a run into its folder."""
    settings = yaml.safe_dump(config.model_dump(), sort_keys=False)
    replace_file(run_dir / CONFIG, settings.encode())


def checked_config(preset: Path | None, changes: Sequence[str]) -> TrainingConfig:
    """The settings; a missing opponent is found now, not after an hour."""
    config = load_config(preset, changes)
    for name in (*config.evaluation.against, *config.league.fixed):
        load_policy(name, config.table)
    return config


def new_run(
    run_dir: Path, preset: Path | None, changes: Sequence[str]
) -> tuple[TrainingConfig, dict[str, torch.Tensor] | None]:
    """Check the settings and make the folder; the settings, and weights to begin with.

    A run that has saved something is never overwritten.
    """
    config = checked_config(preset, changes)
    weights = None if config.start is None else first_weights(config, config.start)
    logs = {CONFIG, METRICS}  # and events: all that a run has which ended before it saved
    names = [path.name for path in run_dir.iterdir()] if run_dir.exists() else []
    if any(name not in logs and not name.startswith("events.") for name in names):
        raise ConfigError(f"{run_dir} holds a run already: --resume {run_dir}, or name another")
    run_dir.mkdir(parents=True, exist_ok=True)
    return config, weights


def begin(
    run_dir: Path,
    preset: Path | None,
    changes: Sequence[str],
    ranks: Ranks = Ranks(),  # noqa: B008
) -> Learner:
    """The learner of a new run; ConfigError or CheckpointError if it cannot be.

    Only the leading rank needs the files.
    """
    config, weights = ranks.from_leader(lambda: new_run(run_dir, preset, changes))
    learner = make_learner(config, ranks)
    if weights is not None:
        learner.network.load_state_dict(weights)
    return learner


if __name__ == "__main__":
    sys.exit(main())

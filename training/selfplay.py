"""Self-play PPO over whole deals, from top to bottom: collect, advantages, update, log, evaluate.

    python -m training.selfplay --config configs/quick.yaml --run-dir runs/quick

One network plays all seats, and all seats' decisions are learned from. Proximal policy
optimisation: Schulman et al., 2017; the masked softmax and the details follow common practice.
Everything random comes from the run's seed and the iteration's number, so that a run is repeatable
and a resumed one needs no generator's state.
"""

import argparse
import hashlib
import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
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
from torch.utils.tensorboard import SummaryWriter

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
from briscola_env.encoding import Encoder
from briscola_env.policies import make_policy
from briscola_env.policies.network import (
    ActorCritic,
    entropy,
    masked_log_probs,
    policy_of,
    sample_actions,
    weights_of,
)
from briscola_env.rng import child_seed, child_seeds
from briscola_env.rules import CheckpointError
from training.config import ConfigError, TrainingConfig, load_config
from training.rollout import Rollout, advantages, collect

RESUME, CONFIG, METRICS = "resume.safetensors", "config.yaml", "metrics.jsonl"
PROGRESS = ("iteration", "decisions", "seconds", "best_margin")
_WEIGHTS_SEED, _DEALS_SEED, _MINIBATCH_SEED, _EVALUATION_SEED = range(4)


@dataclass
class Learner:
    """What an iteration changes: the network, its optimizer, and how far the run is."""

    config: TrainingConfig
    encoder: Encoder
    network: ActorCritic
    optimizer: torch.optim.Adam
    device: torch.device
    precision: torch.dtype
    iteration: int = 0
    decisions: int = 0
    seconds: float = 0.0
    best_margin: float = -float("inf")

    def autocast(self) -> torch.autocast:
        """The reduced precision of the networks' bodies."""
        reduced = self.precision != torch.float32
        return torch.autocast(self.device.type, self.precision, enabled=reduced)

    def seed(self, purpose: int) -> np.uint64:
        """The seed for a purpose in this iteration."""
        return _child(_child(np.uint64(self.config.seed), purpose), self.iteration)


def _child(seed: np.uint64, index: int) -> np.uint64:
    return np.uint64(child_seed(seed, index))


def make_learner(config: TrainingConfig) -> Learner:
    """A fresh network and optimizer for a run."""
    torch.set_num_threads(config.threads)
    cuda = torch.cuda.is_available()
    if config.device == "cuda" and not cuda:
        raise ConfigError("device='cuda': no GPU is available here; use auto or cpu")
    device = torch.device("cuda" if cuda and config.device != "cpu" else "cpu")
    for name in config.evaluation.against:
        make_policy(name, config.table)  # a missing opponent is found now, not after an hour
    encoder = Encoder(config.table, config.frame, config.show_points)
    weights_seed = int(_child(np.uint64(config.seed), _WEIGHTS_SEED)) >> 1
    sizes = config.network.model_dump()
    network = ActorCritic(encoder.size, config.table.num_actions, **sizes, seed=weights_seed)
    network.to(device)
    optimizer = torch.optim.Adam(
        network.parameters(), lr=config.learning_rate, eps=1e-5, fused=True
    )
    return Learner(config, encoder, network, optimizer, device, precision_of(config, device))


def precision_of(config: TrainingConfig, device: torch.device) -> torch.dtype:
    """`auto` is bfloat16 where the hardware multiplies it; elsewhere it would be emulated."""
    if config.precision != "auto":
        return torch.bfloat16 if config.precision == "bfloat16" else torch.float32
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    features = torch.cpu.get_capabilities()
    native = features.get("avx512_bf16") or features.get("amx_bf16") or features.get("sve_bf16")
    return torch.bfloat16 if native else torch.float32


# ----------------------------------------------------------------------------------------- collect


def collect_deals(learner: Learner) -> Rollout:
    """The iteration's deals, every seat played by a sample from the network's policy."""
    config = learner.config
    deals = np.empty(config.deals, np.uint64)
    child_seeds(learner.seed(_DEALS_SEED), 0, deals)

    def choose(
        observations: NDArray[np.int8], legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        logits = learner.network.logits(torch.from_numpy(observations).to(learner.device))
        actions, log_probs = np.empty(len(legal), np.int64), np.empty(len(legal), np.float32)
        sample_actions(logits.cpu().numpy(), legal, seeds, actions, log_probs)
        return actions, log_probs

    with torch.inference_mode(), learner.autocast():
        return collect(learner.encoder, deals, choose, config.reward_points, config.exact_endgame)


# ---------------------------------------------------------------------------------------- advantage


@dataclass(frozen=True)
class Batch:
    """All decisions of an iteration, [M] in order of deal, seat, slot."""

    observations: torch.Tensor  # int8 [M, size]
    legal: torch.Tensor  # bool [M, num_actions]
    actions: torch.Tensor  # int64 [M]
    log_probs: torch.Tensor  # float32 [M]
    advantages: torch.Tensor  # float32 [M], mean 0 and deviation 1
    returns: torch.Tensor  # float32 [M], what the critic learns
    values: torch.Tensor  # float32 [M], what it said


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
    return Batch(
        observations,
        *(
            torch.from_numpy(array[valid]).to(learner.device)
            for array in (rollout.legal, rollout.actions, rollout.log_probs)
        ),
        (gained - gained.mean()) / (gained.std() + 1e-8),
        gained + estimates,
        estimates,
    )


# ------------------------------------------------------------------------------------------- update


def update(learner: Learner, batch: Batch) -> dict[str, float]:
    """Some epochs of PPO over the batch, in place; the usual metrics, averaged over the steps."""
    config = learner.config
    progress = learner.iteration / config.iterations
    rate = config.learning_rate + progress * (config.final_learning_rate - config.learning_rate)
    bonus = config.entropy_coef + progress * (config.final_entropy_coef - config.entropy_coef)
    for group in learner.optimizer.param_groups:
        group["lr"] = rate
    generator = torch.Generator().manual_seed(int(learner.seed(_MINIBATCH_SEED)) >> 1)
    steps: list[torch.Tensor] = []
    for _ in range(config.epochs):
        order = torch.randperm(len(batch.actions), generator=generator).to(learner.device)
        for rows in order.split(config.minibatch):
            loss, metrics = ppo_loss(learner, batch, rows, bonus)
            learner.optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(
                learner.network.parameters(), config.max_grad_norm
            )
            learner.optimizer.step()
            steps.append(torch.stack([*metrics, norm]))
    means = torch.stack(steps).mean(0).tolist()
    if not np.isfinite(means).all():
        raise FloatingPointError(
            f"the loss is not finite in iteration {learner.iteration}: {means}"
        )
    names = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "grad_norm")
    residual = (batch.returns - batch.values).var() / batch.returns.var()
    return {
        **{f"losses/{name}": value for name, value in zip(names, means, strict=True)},
        "losses/explained_variance": 1 - float(residual),
        "charts/learning_rate": rate,
        "charts/entropy_coef": bonus,
    }


def ppo_loss(
    learner: Learner, batch: Batch, rows: torch.Tensor, entropy_coef: float
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The clipped loss of one minibatch, and what to report of it."""
    config = learner.config
    with learner.autocast():
        observations = learner.network.inputs(batch.observations.index_select(0, rows))
        logits = learner.network.logits(observations)
        values = learner.network.values(observations)
    log_probs = masked_log_probs(logits, batch.legal[rows])
    log_ratio = log_probs.gather(1, batch.actions[rows, None])[:, 0] - batch.log_probs[rows]
    ratio = log_ratio.exp()
    gain = batch.advantages[rows]
    clipped = ratio.clamp(1 - config.clip_coef, 1 + config.clip_coef)
    policy_loss = -torch.min(ratio * gain, clipped * gain).mean()
    value_loss = 0.5 * (values - batch.returns[rows]).square().mean()
    spread = entropy(log_probs).mean()
    loss = policy_loss + config.value_coef * value_loss - entropy_coef * spread
    with torch.no_grad():
        approx_kl = ((ratio - 1) - log_ratio).mean()
        clip_fraction = ((ratio - 1).abs() > config.clip_coef).float().mean()
    detached = [policy_loss.detach(), value_loss.detach(), spread.detach()]
    return loss, [*detached, approx_kl, clip_fraction]


# ----------------------------------------------------------------------------- evaluate, save, log


def evaluate(learner: Learner) -> dict[str, float]:
    """The network, playing its best action, against each configured opponent on mirrored decks."""
    settings, rules = learner.config.evaluation, learner.config.table
    policy = policy_of(to_checkpoint(learner), rules, "learner")
    seed = int(_child(np.uint64(learner.config.seed), _EVALUATION_SEED))
    metrics = {}
    for name in settings.against:
        match = evaluate_match(policy, make_policy(name, rules), rules, settings.decks, seed)
        metrics[f"eval/margin_{name}"] = match.margin.value
        metrics[f"eval/margin_low_{name}"] = match.margin.low
        metrics[f"eval/margin_high_{name}"] = match.margin.high
        metrics[f"eval/score_{name}"] = match.score.value
        metrics[f"eval/win_rate_{name}"] = match.wins / match.games
        metrics[f"eval/draw_rate_{name}"] = match.draws / match.games
    return metrics


def to_checkpoint(learner: Learner) -> Checkpoint:
    """The learner as it is, as a checkpoint."""
    config = learner.config
    facts = {
        "algorithm": "self-play PPO",
        "seed": config.seed,
        "iterations": learner.iteration,
        "deals": learner.iteration * config.deals,
        "decisions": learner.decisions,
        "seconds": round(learner.seconds, 1),
    }
    return Checkpoint(
        *(config.table, config.frame, config.show_points, config.exact_endgame),
        *(config.reward_points, learner.network.sizes, facts, weights_of(learner.network)),
    )


def save(learner: Learner, run_dir: Path, best: bool) -> None:
    """The checkpoint, and beside it all that a resumed run needs; each file whole or not at all."""
    checkpoint = to_checkpoint(learner)
    if best:
        checkpoint.save(run_dir / BEST)
    checkpoint.save(run_dir / LAST)
    tensors = {f"weights/{name}": array for name, array in checkpoint.weights.items()}
    for name, parameter in learner.network.named_parameters():
        for key, tensor in learner.optimizer.state[parameter].items():
            tensors[f"{key}/{name}"] = tensor.detach().cpu().numpy()
    header = {name: getattr(learner, name) for name in PROGRESS}
    header["checkpoint_sha256"] = hashlib.sha256((run_dir / LAST).read_bytes()).hexdigest()
    write_tensors(run_dir / RESUME, tensors, header)


def restore(run_dir: Path, changes: Sequence[str]) -> Learner:
    """The learner of a run as it was saved last; ConfigError or CheckpointError if it cannot be."""
    learner = make_learner(load_config(run_dir / CONFIG, changes))
    tensors, header = read_tensors(find(run_dir / RESUME))
    groups: dict[str, dict[str, torch.Tensor]] = {}
    for name, array in tensors.items():
        key, _, parameter = name.partition("/")
        groups.setdefault(key, {})[parameter] = torch.from_numpy(array.copy())
    try:
        learner.network.load_state_dict(groups.pop("weights"))
        for name, value in learner.network.named_parameters():
            learner.optimizer.state[value] = {key: group[name] for key, group in groups.items()}
        for name in PROGRESS:
            setattr(learner, name, header[name])
    except (KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{run_dir / RESUME}: not of this run's network ({reason})") from None
    return learner


class Log:
    """Metrics of a run: TensorBoard events and one JSON line an iteration, continued on resume."""

    def __init__(self, run_dir: Path, learner: Learner) -> None:
        path = run_dir / METRICS
        kept = []
        if path.exists():
            # Lines written after the last save belong to iterations that are done again.
            lines = path.read_text().splitlines()
            kept = [line for line in lines if json.loads(line)["iteration"] <= learner.iteration]
        replace_file(path, "".join(f"{line}\n" for line in kept).encode())
        self.file = path.open("a")
        self.events = SummaryWriter(str(run_dir), purge_step=learner.decisions + 1)
        settings = yaml.safe_dump(learner.config.model_dump(), sort_keys=False)
        self.events.add_text("config", f"```yaml\n{settings}```", learner.decisions)

    def write(self, learner: Learner, metrics: dict[str, float]) -> None:
        """One iteration's numbers, at the number of decisions so far."""
        for name, value in metrics.items():
            self.events.add_scalar(name, value, learner.decisions)
        progress = {"iteration": learner.iteration, "decisions": learner.decisions}
        print(json.dumps(progress | metrics), file=self.file, flush=True)

    def close(self) -> None:
        """Flush everything."""
        self.file.close()
        self.events.close()


# --------------------------------------------------------------------------------------------- run


def iterate(learner: Learner) -> dict[str, float]:
    """One iteration, in place: deals, advantages, update; its metrics."""
    start = time.perf_counter()
    rollout = collect_deals(learner)
    collected = time.perf_counter()
    batch = make_batch(learner, rollout)
    metrics = update(learner, batch)
    seconds = time.perf_counter() - start
    decisions = len(batch.actions)
    learner.iteration += 1
    learner.decisions += decisions
    learner.seconds += seconds
    return metrics | {
        "charts/samples_per_second": decisions / seconds,
        "charts/deals_per_second": learner.config.deals / seconds,
        "charts/collect_share": (collected - start) / seconds,
        "rollout/ep_len_mean": decisions / learner.config.deals,
        "rollout/ep_rew_mean": float(rollout.rewards[:, 0].sum(axis=-1).mean()),
        "rollout/margin_deviation": float(rollout.margins[:, 0].std()),
        "rollout/illegal_actions": int((~batch.legal.gather(1, batch.actions[:, None])).sum()),
    }


def train(learner: Learner, run_dir: Path) -> None:
    """Iterate to the end of the run; Ctrl-C ends after the iteration, saves, and says how to go on.

    An iteration is never left in the middle, so that a resumed run is the one that went through.
    """
    config, log, stop = learner.config, Log(run_dir, learner), threading.Event()
    columns = (
        *(TextColumn("train"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()),
        *(TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.description}")),
    )
    handler = signal.signal(signal.SIGINT, lambda *_: stop.set())
    try:
        with Progress(*columns) as bar:
            task = bar.add_task("", total=config.iterations, completed=learner.iteration)
            while learner.iteration < config.iterations and not stop.is_set():
                metrics = iterate(learner)
                last, best = learner.iteration == config.iterations, False
                if last or learner.iteration % config.evaluation.every == 0:
                    metrics |= evaluate(learner)
                    bar.update(task, description=summary(metrics, config.evaluation.against))
                    margin = metrics[f"eval/margin_{config.evaluation.against[0]}"]
                    best = margin > learner.best_margin
                    learner.best_margin = max(margin, learner.best_margin)
                log.write(learner, metrics)
                if last or best or learner.iteration % config.checkpoint_every == 0:
                    save(learner, run_dir, best)
                bar.update(task, completed=learner.iteration)
    finally:
        signal.signal(signal.SIGINT, handler)
        log.close()
    if learner.iteration < config.iterations:
        save(learner, run_dir, best=False)
        print(f"stopped; go on with: python -m training.selfplay --resume {run_dir}")


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
    try:
        if options.resume:
            run_dir = options.resume
            learner = restore(run_dir, options.changes)
        else:
            run_dir = options.run_dir
            learner = make_learner(load_config(options.config, options.changes))
            new_run(run_dir)
        settings = yaml.safe_dump(learner.config.model_dump(), sort_keys=False)
        replace_file(run_dir / CONFIG, settings.encode())
        train(learner, run_dir)
    except (ValueError, OSError, FloatingPointError) as error:
        print(f"training.selfplay: {error}", file=sys.stderr)
        return 2
    return 0


def new_run(run_dir: Path) -> None:
    """Make the folder; a run that is there is never overwritten."""
    if run_dir.exists() and any(run_dir.iterdir()):
        raise ConfigError(f"{run_dir} holds a run already: --resume {run_dir}, or name another")
    run_dir.mkdir(parents=True, exist_ok=True)


if __name__ == "__main__":
    sys.exit(main())

"""The processes of a data-parallel run, as torchrun starts them; without torchrun there is one.

    torchrun --nproc-per-node 2 -m training.selfplay --config configs/quick.yaml --run-dir runs/a

Every function here does nothing when there is a single rank.
"""

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from numpy.typing import NDArray

T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """This process's place among those of the run."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """True in the one process that logs, evaluates and saves."""
        return self.rank == 0

    def part(self, items: NDArray) -> NDArray:
        """This rank's share of the items: one after the other they are all of them."""
        bounds = [len(items) * k // self.size for k in (self.rank, self.rank + 1)]
        return items[slice(*bounds)]

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        """Add the tensor up over all ranks, in place; it is returned."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def sum_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Add the gradients up over all ranks, in place, in one message."""
        if self.size > 1:
            gradients = [parameter.grad for parameter in parameters]
            flat = self.sum(torch.cat([gradient.flatten() for gradient in gradients]))
            for gradient, summed in zip(
                gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True
            ):
                gradient.copy_(summed.view_as(gradient))

    def counts(self, own: int) -> list[int]:
        """Every rank's number, in order."""
        numbers = torch.zeros(self.size, dtype=torch.int64)
        numbers[self.rank] = own
        return self.sum(numbers).tolist()

    def from_leader(self, make: Callable[[], T]) -> T:
        """What the leading rank makes, on all ranks; its error is raised on all of them."""
        if self.size == 1:
            return make()
        made: list[T | Exception | None] = [None]
        if self.leads:
            try:
                made = [make()]
            except Exception as error:
                made = [error]
        dist.broadcast_object_list(made)
        if isinstance(made[0], Exception):
            raise made[0]
        return made[0]


def join_ranks() -> Ranks:
    """Meet the other processes that torchrun has started."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return Ranks()
    backend = "cpu:gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend += ",cuda:nccl"
    dist.init_process_group(backend)
    return Ranks(dist.get_rank(), dist.get_world_size())


def leave_ranks(ranks: Ranks, code: int) -> None:
    """End this process when all ranks have come to the end of the run; a single one returns.

    Nothing is torn down: gloo's threads now and then abort a process that does it beside others.
    """
    if ranks.size > 1:
        dist.barrier()
        sys.stdout.flush()
        os._exit(code)

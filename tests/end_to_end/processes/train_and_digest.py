"""One of several processes: trains configs with launcher 'pytorch' and writes what this rank ended with.

Arguments: the output folder, and a JSON list of the keyword arguments of `mmvisattn.hosts.launch.train`.
"""

import hashlib
import json
import sys
from pathlib import Path

from mmengine.dist import get_rank

from mmvisattn.hosts.launch import train


def digest(runner):
    """Hash of all parameters, names of frozen ones, names of those that the optimizer has stepped."""
    model, stepped = runner.model, runner.optim_wrapper.optimizer.state
    content = hashlib.sha256()
    for _, parameter in sorted(model.named_parameters()):
        content.update(parameter.detach().numpy().tobytes())
    parameters = dict(model.named_parameters())
    return {
        "parameters": content.hexdigest(),
        "frozen": sorted(name for name, parameter in parameters.items() if not parameter.requires_grad),
        "stepped": sorted(name for name, parameter in parameters.items() if parameter in stepped),
        "all": sorted(parameters),
        "wrapper": type(model).__name__,
    }


def main():
    output, runs = Path(sys.argv[1]), json.loads(sys.argv[2])
    for index, arguments in enumerate(runs):
        runner = train(**arguments, launcher="pytorch")
        (output / f"run{index}_rank{get_rank()}.json").write_text(json.dumps(digest(runner)))


if __name__ == "__main__":
    main()

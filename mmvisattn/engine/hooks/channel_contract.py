"""The contract check as a hook, so that it also runs under the hosts' own scripts."""

from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import Runner

from mmvisattn.engine.contract import check


class ChannelContractHook(Hook):
    """Before the first image is read, check that backbone, neck and heads fit.

    Raises:
        ContractError: If they do not; both lists are in the message. See :func:`mmvisattn.engine.contract.check`.
    """

    priority = "VERY_HIGH"

    def before_run(self, runner: Runner) -> None:
        """Check the runner's model and log how many comparisons held."""
        report = check(runner.model)
        print_log(f"channels and strides fit ({len(report.checked)} comparisons)", logger="current")

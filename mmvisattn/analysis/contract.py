"""Whether the parts of a model fit; see :mod:`mmvisattn.engine.contract`, where the hook that runs it also finds it."""

from mmvisattn.engine.contract import ContractError, Report, check

__all__ = ["ContractError", "Report", "check"]

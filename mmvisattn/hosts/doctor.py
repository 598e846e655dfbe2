"""What is installed, what works, and the one command that mends what does not.

Every check is a small function that returns a :class:`Finding`; :func:`examine` runs them all and :func:`report` prints
one screen. Nothing here changes the environment.
"""

import contextlib
import importlib
import platform
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution

ENVIRONMENT = "tools/environment"  # where the tested versions are written down
OPENCV_WHEELS = ("opencv-python", "opencv-python-headless", "opencv-contrib-python", "opencv-contrib-python-headless")
HOSTS = {"mmdet": ("mmdet", "onedl-mmdetection"), "mmseg": ("mmsegmentation", "onedl-mmsegmentation")}
MMCV_WHEELS = ("mmcv", "mmcv-lite", "onedl-mmcv", "onedl-mmcv-lite")
MMENGINE_WHEELS = ("mmengine", "onedl-mmengine")


@dataclass(frozen=True)
class Finding:
    """One line of the screen.

    Attributes:
        subject: What was looked at.
        state: What was found, in a few words.
        remedy: The command that mends it; empty when nothing is wrong.
    """

    subject: str
    state: str
    remedy: str = ""

    @property
    def healthy(self) -> bool:
        """Whether there is nothing to mend."""
        return not self.remedy


def distributions(names: Sequence[str]) -> list[Distribution]:
    """Those of these distributions that are installed, the one that Python imports first at the front."""
    found = []
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            found.append(distribution(name))
    order = {folder: position for position, folder in reversed(list(enumerate(sys.path)))}
    return sorted(found, key=lambda each: order.get(str(each.locate_file("")), len(order)))


def installed_version(*names: str) -> str | None:
    """Name and version of that one of these distributions which Python imports, or None when none is installed.

    >>> installed_version('no-such-package', 'torch').split()[0]
    'torch'
    """
    found = distributions(names)
    return f"{found[0].metadata['Name']} {found[0].version}" if found else None


def side_by_side(names: Sequence[str]) -> list[str]:
    """Name and version of those of these distributions that share a folder with the first one found.

    Only they overwrite each other's files; an environment layered on another may well see a second one further down.
    """
    found = distributions(names)
    shared = [each for each in found if each.locate_file("") == found[0].locate_file("")]
    return [f"{each.metadata['Name']} {each.version}" for each in shared]


def release(text: str) -> tuple[int, ...]:
    """The leading numbers of a version, for comparing.

    >>> release('2.14.1+cu130'), release('2.0.0rc4')
    ((2, 14, 1), (2, 0, 0))
    """
    numbers = []
    for part in text.split("+")[0].split("."):
        digits = ""
        for character in part:
            if not character.isdigit():
                break
            digits += character
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def import_error(module: str) -> str | None:
    """The first line of the error that importing a module gives, or None when it imports."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the screen is for what can be mended
            importlib.import_module(module)
    except Exception as error:  # any failure at import is the finding
        return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return None


def pip_install(*requirements: str, no_deps: bool = False) -> str:
    """The pip command for these requirements, with the interpreter that is running.

    >>> pip_install('ftfy').endswith("-m pip install 'ftfy'")
    True
    """
    quoted = " ".join(f"'{item}'" for item in requirements)
    return f"{sys.executable} -m pip install {'--no-deps ' if no_deps else ''}{quoted}"


def check_python() -> Finding:
    """The interpreter that is running (pip refuses to install this package on one that is too old)."""
    return Finding("python", f"{platform.python_version()} on {platform.system()}")


def check_torch() -> Finding:
    """Torch 2.6 or newer."""
    found = installed_version("torch")
    if found is None:
        return Finding("torch", "not installed", pip_install("torch>=2.6"))
    if release(found.split()[1]) < (2, 6):
        return Finding("torch", found + " is older than 2.6", pip_install("torch>=2.6"))
    problem = import_error("torch")
    return Finding("torch", problem, pip_install("torch>=2.6")) if problem else Finding("torch", found.split()[1])


def check_torchvision() -> Finding:
    """Torchvision imports, so that its compiled operators match this torch."""
    found = installed_version("torchvision")
    if found is None:
        return Finding("torchvision", "not installed (detectors need it)", pip_install("torchvision"))
    problem = import_error("torchvision")
    if problem:
        return Finding(
            "torchvision", f"{found} does not fit this torch: {problem}", pip_install("torch", "torchvision")
        )
    return Finding("torchvision", found.split()[1])


def check_opencv() -> Finding:
    """Exactly one OpenCV wheel, and it imports."""
    wheels = side_by_side(OPENCV_WHEELS)
    headless = pip_install("opencv-python-headless")
    if not wheels:
        return Finding("opencv", "not installed (mmcv needs it)", headless)
    if len(wheels) > 1:
        names = " ".join(found.split()[0] for found in wheels)
        remove = f"{sys.executable} -m pip uninstall -y {names}"
        return Finding("opencv", "several wheels overwrite each other: " + ", ".join(wheels), f"{remove} && {headless}")
    problem = import_error("cv2")
    if problem:
        remove = f"{sys.executable} -m pip uninstall -y {wheels[0].split()[0]}"
        return Finding("opencv", f"{wheels[0]} does not import: {problem}", f"{remove} && {headless}")
    return Finding("opencv", wheels[0])


def check_mmengine() -> Finding:
    """Mmengine, and pkg_resources when this version imports it (released mmengine does, lazily)."""
    found = installed_version(*MMENGINE_WHEELS)
    if found is None:
        return Finding("mmengine", "not installed", pip_install("mmengine==0.10.7", no_deps=True))
    problem = import_error("mmengine")
    if problem:
        return Finding("mmengine", f"{found}: {problem}", pip_install("mmengine==0.10.7"))
    if found.startswith("mmengine ") and import_error("pkg_resources"):
        return Finding("mmengine", f"{found} needs pkg_resources, which is gone", pip_install("setuptools<82"))
    return Finding("mmengine", found)


def check_mmcv() -> Finding:
    """An mmcv that the installed mmdet and mmseg accept (2.0.0rc4 up to, not including, 2.2.0)."""
    wheels = side_by_side(MMCV_WHEELS)
    remedy = pip_install("mmcv-lite==2.1.0", no_deps=True)
    if not wheels:
        return Finding("mmcv", "not installed", remedy)
    if len(wheels) > 1:
        names = " ".join(found.split()[0] for found in wheels)
        remove = f"{sys.executable} -m pip uninstall -y {names}"
        return Finding("mmcv", "several wheels overwrite each other: " + ", ".join(wheels), f"{remove} && {remedy}")
    hosts = [found for names in HOSTS.values() if (found := installed_version(*names))]
    stock_hosts = ", ".join(host for host in hosts if not host.startswith("onedl"))
    if stock_hosts and not (2, 0) <= release(wheels[0].split()[1]) < (2, 2):
        return Finding("mmcv", f"{wheels[0]}, but {stock_hosts} accepts >=2.0.0,<2.2.0 only", remedy)
    return Finding("mmcv", wheels[0])


def check_mm_ops() -> Finding:
    """Whether mmcv's operators are the compiled ones, ours, or missing."""
    if import_error("mmcv"):
        return Finding("mm ops", "mmcv is missing; see above")
    from mmvisattn.hosts import mmcv_ops

    ours = mmcv_ops.install()
    problem = import_error("mmcv.ops")
    if problem:
        return Finding("mm ops", problem, pip_install("torch", "torchvision"))
    return Finding("mm ops", "ours (torch and torchvision)" if ours else "compiled mmcv")


def check_mmpretrain() -> Finding:
    """Mmdet imports mmpretrain when it is there, and fails with it: mmpretrain 1.2 needs transformers below 5."""
    found = installed_version("mmpretrain", "onedl-mmpretrain")
    if found is None:
        return Finding("mmpretrain", "not installed (not needed)")
    problem = import_error("mmpretrain.models")
    if problem:
        return Finding(
            "mmpretrain", f"{found} does not import, and mmdet with it: {problem}", pip_install("transformers<5")
        )
    return Finding("mmpretrain", found)


def check_host(module: str) -> Finding:
    """A host library imports with all its models."""
    found = installed_version(*HOSTS[module])
    if found is None:
        other_host = any(installed_version(*names) for name, names in HOSTS.items() if name != module)
        distribution = HOSTS[module][0]
        remedy = "" if other_host else pip_install(distribution, no_deps=True)  # one host is enough
        return Finding(module, "not installed", remedy)
    problem = import_error(module + ".models")
    if problem is None:
        return Finding(module, f"{found} works")
    if "No module named" in problem:
        missing = problem.rsplit("named", 1)[1].strip(" '\"").split(".")[0]
        return Finding(module, f"{found}: {problem}", pip_install(missing))
    return Finding(
        module, f"{found}: {problem}", f"{sys.executable} -m pip install -r {ENVIRONMENT}/host-dependencies.txt"
    )


def check_gpu() -> Finding:
    """The GPU that torch sees; none is fine."""
    import torch

    if not torch.cuda.is_available():
        return Finding("gpu", "none: everything runs on the CPU")
    names = {torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())}
    return Finding("gpu", f"{torch.cuda.device_count()} x {', '.join(sorted(names))}")


def check_triton() -> Finding:
    """Triton, which the fused kernels need on a GPU."""
    import torch

    found = installed_version("triton")
    if found and not import_error("triton"):
        return Finding("triton", found.split()[1])
    if torch.cuda.is_available():
        return Finding(
            "triton", "missing: attention runs through SDPA instead of the fused kernels", pip_install("triton")
        )
    return Finding("triton", "not installed (used on a GPU only)")


CHECKS: tuple[Callable[[], Finding], ...] = (
    check_python,
    check_torch,
    check_torchvision,
    check_opencv,
    check_mmengine,
    check_mmcv,
    check_mm_ops,
    check_mmpretrain,
    lambda: check_host("mmdet"),
    lambda: check_host("mmseg"),
    check_gpu,
    check_triton,
)


def examine() -> list[Finding]:
    """Run every check, in the order in which a problem should be mended."""
    return [check() for check in CHECKS]


def report(findings: list[Finding]) -> str:
    """One screen of text.

    >>> print(report([Finding('torch', '2.14.1'), Finding('mmseg', 'ftfy is missing', "pip install 'ftfy'")]))
    ok       torch        2.14.1
    MEND     mmseg        ftfy is missing
                          -> pip install 'ftfy'
    1 thing to mend, first line first.
    """
    lines = []
    for finding in findings:
        lines.append(f"{'ok' if finding.healthy else 'MEND':<8} {finding.subject:<12} {finding.state}")
        if not finding.healthy:
            lines.append(f"{'':<21} -> {finding.remedy}")
    problems = sum(not finding.healthy for finding in findings)
    if problems:
        lines.append(f"{problems} thing{'s' if problems > 1 else ''} to mend, first line first.")
    else:
        lines.append("All is well.")
    return "\n".join(lines)


def main() -> int:
    """Print the screen; 0 when all is well, 1 when something needs mending."""
    findings = examine()
    print(report(findings))
    return 0 if all(finding.healthy for finding in findings) else 1

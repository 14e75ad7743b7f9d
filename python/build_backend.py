"""How pip builds the package: maturin, told where cmake and libclang are.

HiGHS is compiled with cmake, and its headers are read with libclang. A checkout that has run `make setup` has both in `.tools`,
and `.cargo/config.toml` says so: then nothing is set here, and the wheel takes the HiGHS that `cargo build` has compiled. Where
there are none, pip's own packages are taken, which the build requires.
"""

import os
import pathlib
import shutil
import sys
import sysconfig

from maturin import *  # noqa: F403
import maturin

ROOT = pathlib.Path(__file__).parent.parent


def _tools() -> None:
    """Sets CMAKE and LIBCLANG_PATH unless they are set, or there is what the checkout's configuration of cargo names."""
    if "CMAKE" not in os.environ and not (ROOT / ".tools/bin/cmake").exists():
        scripts = pathlib.Path(sysconfig.get_path("scripts"))
        found = shutil.which("cmake", path=os.pathsep.join([str(scripts), os.environ.get("PATH", "")]))
        if found is None:
            sys.exit("cmake is missing, which compiles HiGHS; `pip install cmake`")
        os.environ["CMAKE"] = found
    if "LIBCLANG_PATH" not in os.environ and not (ROOT / ".tools/lib").exists():
        import clang

        os.environ["LIBCLANG_PATH"] = str(pathlib.Path(clang.__file__).parent / "native")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _tools()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    _tools()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)

"""What pages show for PyTorch: every console block with a command in Python is run from its first command to its last, and so are the
examples of the Python package."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import common

PAGES = [common.ROOT / "README.md", *sorted((common.ROOT / "docs").glob("*.md")), *sorted((common.ROOT / "examples").glob("*.md"))]
BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


def commands(page):
    """The commands of a page, block by block, for blocks that run Python."""
    for block in BLOCK.findall(page.read_text()):
        lines = block.replace("\\\n", "").splitlines()
        found = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        if any(command.startswith(("python ", "torchrun ")) for command in found):
            yield found


class Pages(unittest.TestCase):
    def test_every_command_with_python(self):
        # The environment's own programs, under the names that the pages use.
        folders = [str(pathlib.Path(sys.executable).parent), str(common.STAGECUT.parent), os.environ["PATH"]]
        environment = {**os.environ, "PATH": os.pathsep.join(folders)}
        ran = 0
        for page in PAGES:
            for block in commands(page):
                with tempfile.TemporaryDirectory() as folder:
                    for name in ("tools", "instances"):
                        (pathlib.Path(folder) / name).symlink_to(common.ROOT / name)
                    for command in block:
                        done = subprocess.run(
                            command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=900
                        )
                        self.assertEqual(done.returncode, 0, f"{page.name}: {command}\n{done.stdout}{done.stderr}")
                        ran += 1
        self.assertGreaterEqual(ran, 5)

    def test_every_example_of_the_package_with_torch(self):
        pages = [page for page in PAGES if "\n```python torch\n" in page.read_text()]
        self.assertTrue(pages)
        script = common.ROOT / "python" / "tests" / "documents.py"
        for page in pages:
            with tempfile.TemporaryDirectory() as folder:
                (pathlib.Path(folder) / "instances").symlink_to(common.ROOT / "instances")
                code, stdout, stderr = common.python(script, "--torch", folder, page)
                self.assertEqual(code, 0, f"{page.name}: {stdout}{stderr}")


if __name__ == "__main__":
    unittest.main()

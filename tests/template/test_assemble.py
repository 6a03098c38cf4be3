"""What infra/assemble lets into dist/: programs that Lambda can run, for the processor that is deployed."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from rendered import ROOT, source

FUNCTIONS = {"webhook": "fast", "scale-up": "release", "reaper": "release", "runner-api": "release", "admin": "release"}
X86_64, AARCH64 = 62, 183
MACH_O = bytes.fromhex("cffaedfe0c000001") + bytes(200)


def elf(machine, bits=2, order=1, system=0):
    """The header of an ELF program, followed by nothing that needs a newer glibc."""
    head = b"\x7fELF" + bytes([bits, order, 1, system]) + bytes(8)
    return head + (3).to_bytes(2, "little") + machine.to_bytes(2, "little") + bytes(200) + b"GLIBC_2.34"


class Assemble(unittest.TestCase):
    def assemble(self, program, architecture, config="[default.deploy.parameters]\n"):
        """Runs a copy of it over one program in five places: how it ended, what it said, what it left."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "infra").mkdir()
            shutil.copy(ROOT / "infra/assemble", root / "infra")
            (root / "samconfig.toml").write_text(config)
            for function, profile in FUNCTIONS.items():
                path = root / "target" / profile / f"muster-{function}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(program)
            command = [sys.executable, root / "infra/assemble", root / "target", *architecture]
            done = subprocess.run(command, capture_output=True, text=True)
            left = {str(p.relative_to(root / "dist")) for p in root.glob("dist/**/*") if p.is_file()}
            mark = root / "dist/architecture"
            return done.returncode, done.stderr, left, mark.read_text().strip() if mark.is_file() else None

    def test_what_fits_is_taken_and_noted(self):
        everything = {f"{function}/bootstrap" for function in FUNCTIONS} | {"architecture"}
        config = '[default.deploy.parameters]\nparameter_overrides = "PoolMax=\\"3\\" Architecture=\\"arm64\\""\n'
        for machine, architecture, config in ((X86_64, ["x86_64"], None), (X86_64, [], None), (AARCH64, ["arm64"], config)):
            given = {} if config is None else {"config": config}
            code, said, left, mark = self.assemble(elf(machine), architecture, **given)
            self.assertEqual((code, said, left), (0, "", everything))
            self.assertEqual(mark, architecture[0] if architecture else "x86_64")

    def test_a_program_for_another_machine_is_refused(self):
        for name, program, architecture in (
            ("macOS", MACH_O, "arm64"),
            ("Graviton's for Intel", elf(AARCH64), "x86_64"),
            ("Intel's for Graviton", elf(X86_64), "arm64"),
            ("32 bits", elf(3, bits=1), "x86_64"),
            ("RISC-V", elf(243), "x86_64"),
            ("big-endian", elf(X86_64, order=2), "x86_64"),
            ("FreeBSD", elf(X86_64, system=9), "x86_64"),
            ("cut off", elf(X86_64)[:30], "x86_64"),
            ("a script", b"#!/bin/sh\n" + bytes(200), "x86_64"),
        ):
            with self.subTest(name):
                code, said, left, _ = self.assemble(program, [architecture])
                self.assertEqual((code, left), (1, set()))
                self.assertIn("make build ARCH=", said)

    def test_an_architecture_that_lambda_lacks_is_refused(self):
        code, said, left, _ = self.assemble(elf(X86_64), ["riscv64"])
        self.assertEqual((code, left), (1, set()))
        self.assertIn("riscv64", said)

    def test_what_would_be_deployed_as_something_else_is_told(self):
        overrides = 'parameter_overrides = ["PoolMax=3", "Architecture=arm64"]\n'
        code, said, _, _ = self.assemble(elf(X86_64), ["x86_64"], f"[default.deploy.parameters]\n{overrides}")
        self.assertEqual(code, 1)
        self.assertIn("would deploy it as arm64", said)
        code, said, _, _ = self.assemble(elf(AARCH64), ["arm64"])
        self.assertEqual(code, 1)
        self.assertIn("would deploy it as x86_64", said)

    def test_the_default_is_the_templates(self):
        self.assertEqual(source()["Parameters"]["Architecture"]["Default"], "x86_64")

    def test_a_newer_glibc_is_refused(self):
        code, said, left, _ = self.assemble(elf(X86_64) + b"GLIBC_2.38", ["x86_64"])
        self.assertEqual((code, left), (1, set()))
        self.assertIn("2.38", said)


if __name__ == "__main__":
    unittest.main()

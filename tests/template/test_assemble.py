"""Builds into dist/: infra/assemble accepts only programs that Lambda can run, for the deployed processor."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from rendered import ROOT, source

FUNCTIONS = {"webhook": "fast", "scale-up": "release", "reaper": "release", "runner-api": "fast", "admin": "release"}
X86_64, AARCH64 = 62, 183
MACH_O = bytes.fromhex("cffaedfe0c000001") + bytes(200)


def elf(machine, bits=2, order=1, system=0):
    """Returns the header of an ELF program without symbols of a newer glibc."""
    head = b"\x7fELF" + bytes([bits, order, 1, system]) + bytes(8)
    return head + (3).to_bytes(2, "little") + machine.to_bytes(2, "little") + bytes(200) + b"GLIBC_2.34"


class Assemble(unittest.TestCase):
    def assemble(self, program, architecture, config="[default.deploy.parameters]\n"):
        """Runs a copy of it with one program for all five functions. Returns its exit code, output, errors and files."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "infra").mkdir()
            shutil.copy(ROOT / "infra/assemble", root / "infra")
            if config is not None:
                (root / "samconfig.toml").write_text(config)
            for function, profile in FUNCTIONS.items():
                path = root / "target" / profile / f"muster-{function}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(program)
            command = [sys.executable, root / "infra/assemble", root / "target", *architecture]
            done = subprocess.run(command, capture_output=True, text=True)
            left = {str(p.relative_to(root / "dist")) for p in root.glob("dist/**/*") if p.is_file()}
            mark = root / "dist/architecture"
            return done.returncode, done.stdout, done.stderr, left, mark.read_text().strip() if mark.is_file() else None

    def test_what_fits_is_taken_and_noted(self):
        everything = {f"{function}/bootstrap" for function in FUNCTIONS} | {"architecture"}
        config = '[default.deploy.parameters]\nparameter_overrides = "PoolMax=\\"3\\" Architecture=\\"arm64\\""\n'
        for machine, architecture, config in ((X86_64, ["x86_64"], None), (X86_64, [], None), (AARCH64, ["arm64"], config)):
            given = {} if config is None else {"config": config}
            code, _, said, left, mark = self.assemble(elf(machine), architecture, **given)
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
                code, _, said, left, _ = self.assemble(program, [architecture])
                self.assertEqual((code, left), (1, set()))
                self.assertIn("make build ARCH=", said)

    def test_an_architecture_that_lambda_lacks_is_refused(self):
        code, _, said, left, _ = self.assemble(elf(X86_64), ["riscv64"])
        self.assertEqual((code, left), (1, set()))
        self.assertIn("riscv64", said)

    def test_what_would_be_deployed_as_something_else_is_told(self):
        overrides = 'parameter_overrides = ["PoolMax=3", "Architecture=arm64"]\n'
        code, _, said, _, _ = self.assemble(elf(X86_64), ["x86_64"], f"[default.deploy.parameters]\n{overrides}")
        self.assertEqual(code, 1)
        self.assertIn("deploy it as arm64", said)

    def test_a_first_build_for_arm64_is_good(self):
        # The parameter can only be in samconfig.toml once the next deployment has written it.
        for config in ("[default.deploy.parameters]\n", "version = 0.1\n", None):
            code, told, said, _, mark = self.assemble(elf(AARCH64), ["arm64"], config)
            self.assertEqual((code, said, mark), (0, "", "arm64"))
            self.assertIn("Architecture=arm64", told)
            code, told, _, _, _ = self.assemble(elf(X86_64), ["x86_64"], config)
            self.assertEqual((code, "Architecture=" in told), (0, False))

    def test_the_default_is_the_templates(self):
        self.assertEqual(source()["Parameters"]["Architecture"]["Default"], "x86_64")

    def test_a_newer_glibc_is_refused(self):
        code, _, said, left, _ = self.assemble(elf(X86_64) + b"GLIBC_2.38", ["x86_64"])
        self.assertEqual((code, left), (1, set()))
        self.assertIn("2.38", said)


# Stubs for the tools, which record their arguments.
RUSTC = """#!/bin/sh
case "$*" in
  -vV) echo "host: x86_64-unknown-linux-gnu" ;;
  *) echo "$RUSTLIB" ;;
esac
"""
CARGO = """#!/bin/sh
case "$*" in
  "zigbuild --help") test -n "$HAS_ZIGBUILD" ;;
  *) echo "cargo $*" ;;
esac
"""
PYTHON = """#!/bin/sh
test -n "$HAS_ZIG"
"""


class Build(unittest.TestCase):
    """`make build` up to the end of the compilation, with tools that only record their arguments."""

    def build(self, *variables, rustlib=ROOT, **has):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("rustc", RUSTC), ("cargo", CARGO), ("python3", PYTHON), ("zig", "#!/bin/sh\nfalse\n")):
                tool = pathlib.Path(folder) / name
                tool.write_text(text)
                tool.chmod(0o755)
            environment = {"PATH": f"{folder}:/usr/bin:/bin", "RUSTLIB": str(rustlib), **has}
            command = ["make", "--no-print-directory", "build", "BUILT=/nowhere", *variables]
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
            return [line for line in done.stdout.splitlines() if line.startswith("cargo ")], done.stderr

    def test_for_this_machine_cargo_builds(self):
        lines, _ = self.build()
        self.assertTrue(all(line.startswith("cargo build ") for line in lines))
        for function in (function for function, profile in FUNCTIONS.items() if profile == "fast"):
            self.assertTrue(any(f"--profile fast --package muster-{function} " in line for line in lines), function)

    def test_for_another_machine_zig_builds_against_lambdas_glibc(self):
        for variables, triple in ((["ARCH=arm64"], "aarch64"), (["ZIG=1"], "x86_64")):
            lines, _ = self.build(*variables, HAS_ZIGBUILD="1", HAS_ZIG="1")
            self.assertTrue(lines)
            for line in lines:
                self.assertTrue(line.startswith(f"cargo zigbuild --target {triple}-unknown-linux-gnu.2.34 "), line)

    def test_what_is_missing_is_told_before_anything_is_compiled(self):
        everything = {"HAS_ZIGBUILD": "1", "HAS_ZIG": "1", "rustlib": ROOT}
        for lack, sentence in (
            ({"HAS_ZIGBUILD": ""}, "cargo-zigbuild is missing: `pip install cargo-zigbuild`"),
            ({"HAS_ZIG": ""}, "zig is missing: `pip install ziglang`"),
            ({"rustlib": "/nowhere"}, "is missing: `rustup target add aarch64-unknown-linux-gnu`"),
        ):
            with self.subTest(sentence):
                lines, said = self.build("ARCH=arm64", **{**everything, **lack})
                self.assertEqual(lines, [])
                self.assertIn(sentence, said)
        lines, said = self.build("ARCH=riscv64")
        self.assertEqual(lines, [])
        self.assertIn("ARCH=riscv64: Lambda has x86_64 and arm64", said)


if __name__ == "__main__":
    unittest.main()

"""Lists the crates in a program, as a CycloneDX bill of materials and as licence texts."""

import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
LICENCE_NAMES = ("license", "licence", "copying", "notice", "unlicense")


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments, "--locked"], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def resolve(programs, triple):
    """Returns the registry crates that are linked into the programs on one platform, by name and version.

    `cargo tree` selects them, because it uses the features of a build of these programs; `cargo metadata`, which combines
    the features of the whole workspace, describes each crate.
    """
    chosen = [f"--package={program}" for program in programs]
    tree = cargo("tree", *chosen, "--target", triple, "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}")
    # "serde 1.0.1", "serde 1.0.1 (*)", "muster-admin v0.1.0 (/its/folder)"
    linked = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    packages = json.loads(cargo("metadata", "--format-version", "1"))["packages"]
    crates = [p for p in packages if p["source"] and (p["name"], f"v{p['version']}") in linked]
    return sorted(crates, key=lambda crate: (crate["name"], crate["version"]))


def licence_of(crate):
    # Cargo's older syntax for OR.
    return (crate["license"] or "see its licence file").replace("/", " OR ")


def bill(crates, version):
    """Returns the crates as CycloneDX 1.5 (ECMA-424) components, with their package URLs."""
    components = [
        {
            "type": "library",
            "name": crate["name"],
            "version": crate["version"],
            "purl": f"pkg:cargo/{crate['name']}@{crate['version']}",
            "licenses": [{"expression": licence_of(crate)}] if crate["license"] else [],
        }
        for crate in crates
    ]
    about = {"component": {"type": "application", "name": "muster", "version": version}}
    document = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": about, "components": components}
    return (json.dumps(document, indent=1) + "\n").encode()


def licences(crates):
    """Returns a text: each crate with its licence, then each licence text once, with the crates that use it."""
    lines = ["Muster is made with the crates below, under these licences.", ""]
    texts = {}
    for crate in crates:
        name = f"{crate['name']} {crate['version']}"
        lines.append(f"{name}: {licence_of(crate)}")
        folder = pathlib.Path(crate["manifest_path"]).parent
        for path in sorted(folder.iterdir()):
            if path.is_file() and path.name.lower().startswith(LICENCE_NAMES):
                text = path.read_text(encoding="utf-8", errors="replace").strip()
                texts.setdefault(text, []).append(name)
    for text, names in sorted(texts.items(), key=lambda item: item[1]):
        lines += ["", "=" * 80, ", ".join(names), "-" * 80, text]
    return ("\n".join(lines) + "\n").encode()
